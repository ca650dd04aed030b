"""Searches the text in a payload for secrets, where its bytes are not its text, before anything of it is stored."""

from coatcheck.core.artifact import SAMPLE_BYTES, PayloadSample
from coatcheck.core.encoding.payload_encoder import HELD_WHOLE
from coatcheck.core.parts.form import FormDecoder, find_form, open_payload
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.redacting_stream import RedactingStream


class TextSearch:
    """Refuses a payload with a secret in the text in it, if its bytes are not its text: see core/parts.

    No marker can be put there: the text is in another charset, or in an envelope.
    """

    def __init__(self, mask: Mask, media_type: str | None) -> None:
        """Begins a payload. `media_type` is the declared one."""
        self._mask = mask
        self._media_type = media_type
        self._text = RedactingStream(mask, refuse=True, inside=True)
        self._held: bytearray | None = bytearray()
        self._decoder: FormDecoder | None = None

    def feed(self, data: bytes) -> None:
        """Searches the next bytes, which are about to be stored.

        Raises:
            CoatcheckError: `secret_refused`, naming the rule and the place in the text.
        """
        if self._held is not None:
            self._held += data
            if len(self._held) <= HELD_WHOLE:
                return
            data, self._held = bytes(self._held), None
            form = find_form(PayloadSample(data[: 2 * SAMPLE_BYTES], b"", len(data)), self._media_type)
            self._decoder = None if form is None else FormDecoder(form)
        if self._decoder is not None:
            self._text.feed(self._decoder.decode(data))

    def check(self, text: bytes) -> None:
        """Searches the text that was made of a page or a document.

        Raises:
            CoatcheckError: as `feed`.
        """
        stream = RedactingStream(self._mask, refuse=True, inside=True)
        stream.feed(text)
        stream.end()

    def end(self) -> None:
        """Searches the rest.

        Raises:
            CoatcheckError: as `feed`.
        """
        if self._held is not None:
            data = bytes(self._held)
            form = find_form(PayloadSample(data, b"", len(data)), self._media_type)
            if form is not None:
                self._text.feed(open_payload(form, data))
        elif self._decoder is not None:
            self._text.feed(self._decoder.decode(b"", is_last=True))
        self._text.end()
