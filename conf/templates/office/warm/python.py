# LibreOffice once, so that its files are in memory when a sandbox first wants it.
def _warm():
    import pathlib
    import subprocess
    import tempfile

    import docx
    import openpyxl
    with tempfile.TemporaryDirectory() as folder:
        book = pathlib.Path(folder, "book.xlsx")
        openpyxl.Workbook().save(book)
        docx.Document()
        subprocess.run(["soffice", "--headless", "--convert-to", "pdf", "--outdir", folder, book], check=True, capture_output=True)
_warm()
del _warm
