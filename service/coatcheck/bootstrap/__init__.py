"""The composition root: chooses and opens the adapters, builds the use cases, closes in reverse order.

`embedded` and `scale` open the two kinds of store, `stores` chooses between them. `service` builds what answers
requests on top of `foundation`, and the keys for an administrator's commands; `upkeep` serves the others of these.
"""

from coatcheck.bootstrap.embedded import DATABASE
from coatcheck.bootstrap.service import RunningService, open_keys, open_service
from coatcheck.bootstrap.stores import Store, migrate, open_store, place_of
from coatcheck.bootstrap.upkeep import BackupResult, RestoreResult, backup, open_audit, restore

__all__ = [
    "DATABASE",
    "BackupResult",
    "RestoreResult",
    "RunningService",
    "Store",
    "backup",
    "migrate",
    "open_audit",
    "open_keys",
    "open_service",
    "open_store",
    "place_of",
    "restore",
]
