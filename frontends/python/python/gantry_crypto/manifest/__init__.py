"""Digests of all files of a tree or an object store, on one machine or many.

`plan` lists the files, largest first. `Hasher` hashes a batch of them wherever it is called, and writes a shard of results. `missing`
returns the remaining files for a restarted job. `verify_sums`, `verify_bag` and `verify_etags` compare results.
`python -m gantry_crypto.manifest` does all this on one machine.

| module | content |
|---|---|
| `planning` | `plan`, `batches` |
| `hashing` | `Hasher`: files that are read and hashed side by side |
| `shards` | results in Parquet files: `read`, `missing` |
| `verifying`, `sums` | comparisons; lists of checksums |
| `places`, `etags` | files and objects by their paths; the ETags of S3 |

It needs pyarrow, and obstore for object stores: `pip install gantry-crypto[manifest]`.
"""

try:
    import pyarrow as _pyarrow
except ImportError as error:
    raise ImportError("gantry_crypto.manifest needs pyarrow: pip install 'gantry-crypto[manifest]'") from error
del _pyarrow

from .hashing import Hasher
from .planning import SCHEMA, batches, plan
from .shards import missing, read
from .verifying import Finding, verify_bag, verify_etags, verify_sums

__all__ = ["SCHEMA", "Finding", "Hasher", "batches", "missing", "plan", "read", "verify_bag", "verify_etags", "verify_sums"]
