"""`python -m gantry_crypto`: prints the version and the algorithms, and names the sources of help."""

from . import __doc__ as summary
from . import __version__, _core


def main() -> None:
    print(f"gantry_crypto {__version__}: {summary}")
    for title, names in [("Hash functions", _core.algorithms), ("AEADs", _core.aeads), ("Ciphers", _core.ciphers)]:
        print(f"{title}: {', '.join(names)}")
    print("\nIn Python: import gantry_crypto; help(gantry_crypto.digest_many)")
    print("Digests of folders and object stores: python -m gantry_crypto.manifest --help")


if __name__ == "__main__":
    main()
