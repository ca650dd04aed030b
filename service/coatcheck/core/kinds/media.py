"""Images and other binaries: format, dimensions, digest. Never their bytes."""

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan
from coatcheck.core.kinds.magic import identify


class MediaCutter:
    """Anything that is not text."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """The format by its first bytes; the caller's media type where those say nothing."""
        found = identify(sample.head)
        if found is None:
            media_type = said.media_type or "application/octet-stream"
            return Description(media_type=media_type, shape=("Format: unknown binary data",))
        size = f", {found.width} x {found.height} pixels" if found.width else ""
        return Description(media_type=found.media_type, shape=(f"Format: {found.name}{size}",))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Nothing verbatim."""
        del sample, facts
        return Plan(ends=False, hints=0.0)
