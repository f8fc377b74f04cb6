"""An HTTP proxy that makes tunnels (CONNECT, RFC 9110 9.3.6) to the few places it knows by name."""
import base64
import http.server
import select
import socket
import threading


class ConnectProxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, places):
        """places: {name: address}, whatever the port that is asked for"""
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.places, self.port = places, self.server_address[1]
        self.asked, self.keys = [], set()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()


class Tunnel(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        place = self.server.places.get(self.path.rpartition(":")[0])
        self.server.asked.append(self.path)
        if "Proxy-Authorization" in self.headers:
            self.server.keys.add(base64.b64decode(self.headers["Proxy-Authorization"].split()[1]).decode())
        if not place:
            self.send_error(502)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        with socket.create_connection(place) as there:
            self.carry(there)

    def carry(self, there):
        here = self.connection
        while True:
            for s in select.select([here, there], [], [])[0]:
                data = s.recv(65536)
                if not data:
                    return
                (there if s is here else here).sendall(data)
