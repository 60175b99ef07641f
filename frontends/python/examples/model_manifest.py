"""Hashes the files of a model side by side, for signatures of sigstore's model_signing (1.1):

    import model_manifest, model_signing
    config = model_signing.signing.Config().use_elliptic_key_signer(private_key="key.pem")
    config.set_hashing_config(model_manifest.Config()).sign("model", "model.sig")

Prints the manifest of a folder:

    python model_manifest.py model
"""

import concurrent.futures
import os
import pathlib
import sys

import gantry_crypto
from model_signing import hashing
from model_signing._hashing.hashing import Digest
from model_signing._serialization import file, serialization


class Config(hashing.Config):
    """SHA-256 of each file, as `Config.use_file_serialization()` of model_signing has it."""

    def __init__(self):
        super().__init__()
        self._serializer = _Serializer()


class _Serializer(file.Serializer):
    def __init__(self):
        self._results = {}
        super().__init__(lambda path: _Known(self._results.get(path)))

    def serialize(self, model_path, *, ignore_paths=frozenset(), files_to_hash=None):
        """Hashes all files first, with one thread per CPU. The base class checks their kinds and makes the manifest."""
        paths = [model_path, *model_path.glob("**/*")] if files_to_hash is None else list(files_to_hash)
        files = [path for path in paths if path.is_file() and not serialization.should_ignore(path, ignore_paths)]
        threads = max(1, min(os.cpu_count() or 1, len(files)))
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            shares = pool.map(_hash, (files[first::threads] for first in range(threads)))
            self._results = {result.path: result for share in shares for result in share}
        return super().serialize(model_path, ignore_paths=ignore_paths, files_to_hash=paths)


def _hash(files):
    return list(gantry_crypto.hash_files(files, "sha256"))


class _Known:
    """The hasher of a file whose digest is known."""

    digest_name = "sha256"

    def __init__(self, result):
        self._result = result

    def compute(self):
        if self._result.error:
            raise self._result.error
        return Digest(self.digest_name, bytes.fromhex(self._result.digests["sha256"]))


if __name__ == "__main__":
    for item in Config().hash(pathlib.Path(sys.argv[1])).resource_descriptors():
        print(item.digest.digest_hex, item.identifier, sep="  ")
