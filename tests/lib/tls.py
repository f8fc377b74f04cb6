"""Certificates that a test signs itself."""
import os
import subprocess


def certificate(folder, name):
    """For 127.0.0.1 and carrel.test -> its file and its key's"""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=carrel test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:carrel.test", "-keyout", key, "-out", cert], check=True, capture_output=True)
    os.chmod(key, 0o600)
    return cert, key
