"""The health check of the gateway's image: exit code 0 when /readyz says that agents can be served.

Only the standard library, since it runs every few seconds; straight to the port, whatever proxies the environment
names.
"""

import http.client
import sys


def main() -> int:
    connection = http.client.HTTPConnection("127.0.0.1", 8765, timeout=4)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        print(answer.read(2_000).decode(errors="replace"))
        return 0 if answer.status == 200 else 1
    except (OSError, http.client.HTTPException) as error:
        print(f"the gateway does not answer: {error}")
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
