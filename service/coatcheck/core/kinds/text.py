"""Plain text: its two ends."""

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan


class TextCutter:
    """Opaque text, about which nothing else is known."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Nothing: text speaks for itself."""
        del sample, said
        return Description()

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Head and tail alike."""
        del sample, facts
        return Plan(tail=0.5, hints=0.0)
