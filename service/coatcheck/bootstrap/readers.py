"""Builds what reads stored payloads: their views, the use cases over them, and the model's tools."""

import secrets
from dataclasses import dataclass

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.api.services import Inspection
from coatcheck.bootstrap.foundation import Foundation
from coatcheck.reading.view import OpenView
from coatcheck.storing.card_text import CardText
from coatcheck.storing.find import Find
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.session_names import SessionNames
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.listing import ListArtifacts
from coatcheck.tools.read import ReadArtifact
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.seal_key import SealKey
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.reading.search import Search


@dataclass(frozen=True)
class Readers:
    """The use cases that show a stored payload, and the text views that they make."""

    extractor: TextExtractor
    keep_text: KeepText
    card_text: CardText
    describe: Describe
    open_view: OpenView
    """Opens views as models and callers read them: masked according to policy."""
    read_span: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    browse: Browse
    session_names: SessionNames
    tools: ToolDispatcher


def text_extractor(base: Foundation) -> TextExtractor:
    """Returns what makes text views of large pages and documents, in processes of its own."""
    settings = base.settings
    return TextExtractor(settings.extract_workers, seconds=settings.extract_seconds, memory=settings.extract_memory)


def readers(base: Foundation, extractor: TextExtractor, keep_text: KeepText, index: Index) -> Readers:
    """Returns the use cases; `index` is used for searches in all artifacts."""
    store, tokenizer = base.store, base.tokenizer
    open_content = store.open_content
    card_text = CardText(
        extractor,
        open_content,
        keep_text,
        tokenizer,
        base.deps.new_blob_id,
        inline_bytes=base.settings.inline_bytes,
    )
    open_view = OpenView(base.find, open_content, keep_text, base.deps.ledger, base.redacting)
    read_span, search = Read(open_view, tokenizer, store.readers), Search(open_view, tokenizer, store.readers)
    passages = FindPassages(open_view, tokenizer, store.readers)
    read_json = ReadJson(open_view, tokenizer, store.readers)
    outline = Outline(open_view, tokenizer, store.readers)
    seal_key = SealKey(store.catalog, store.clock, secrets.token_hex)
    session_names = SessionNames(store.catalog, base.redacting)
    browse = Browse(store.catalog, store.clock, seal_key, index, base.redacting, session_names)
    reading_tool = ReadArtifact(
        open_view, read_span, search, outline, tokenizer, store.readers, passages=passages, values=read_json
    )
    return Readers(
        extractor=extractor,
        keep_text=keep_text,
        card_text=card_text,
        describe=Describe(
            base.find,
            open_content,
            tokenizer,
            store.readers,
            base.settings.card_tokens,
            card_text,
            base.policies.now,
            base.redacting,
        ),
        open_view=open_view,
        read_span=read_span,
        search=search,
        windows=passages,
        read_json=read_json,
        outline=outline,
        browse=browse,
        session_names=session_names,
        tools=ToolDispatcher(reading_tool, ListArtifacts(browse, tokenizer, store.readers), tokenizer),
    )


def inspection(base: Foundation, reading: Readers) -> Inspection:
    """Returns what the administrator's page reads with: the same use cases, over look-ups that leave no trace."""
    store, tokenizer, threads = base.store, base.tokenizer, base.store.readers
    find = Find(
        store.catalog, store.clock, base.reads, base.fallback, base.policies.evicts, base.redacting, notes=False
    )
    open_view = OpenView(find, store.open_content, reading.keep_text, None, base.redacting)
    return Inspection(
        describe=Describe(
            find,
            store.open_content,
            tokenizer,
            threads,
            base.settings.card_tokens,
            reading.card_text,
            base.policies.now,
            base.redacting,
        ),
        read_span=Read(open_view, tokenizer, threads),
        search=Search(open_view, tokenizer, threads),
        windows=FindPassages(open_view, tokenizer, threads),
        read_json=ReadJson(open_view, tokenizer, threads),
        outline=Outline(open_view, tokenizer, threads),
        open_view=open_view,
        stored_view=OpenView(find, store.open_content, reading.keep_text),
        seal_key=SealKey(store.catalog, store.clock, secrets.token_hex),
    )
