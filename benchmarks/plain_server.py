"""The server to compare with: the same model, one request at a time, as one writes it in a day.

python benchmarks/plain_server.py RUN PORT
"""

import io
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import arborvox


def main() -> None:
    """Serve WAV bodies until killed."""
    recognizer = arborvox.load(sys.argv[1])
    recognizer.engine.rehearse()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            text = recognizer.transcribe(io.BytesIO(body)).text.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    HTTPServer.request_queue_size = 1024
    server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print(f"http://127.0.0.1:{server.server_port}/ serves", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
