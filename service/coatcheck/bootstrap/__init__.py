"""The composition root: chooses and opens the adapters, builds the use cases, closes in reverse order.

`embedded` and `scale` open the two kinds of store; `stores` chooses between them. `foundation` builds the parts that
all use cases share. On top of these parts, `service` builds the use cases that answer requests; it also opens the use
cases for keys, which an administrator's commands need. `upkeep` carries out the administrator's other commands.
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
