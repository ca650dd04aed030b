"""Charsets of payloads: proven, declared, detected; and what is no text at all."""
# ruff: noqa: RUF001 - texts of many scripts

import json
import random
import struct

import pytest

from coatcheck.core.artifact import Charset
from coatcheck.core.parts.charset import LineDecoder, decode, find_charset

TEXTS = {
    "ja": "設定ファイルが見つかりません。パスを確認してからもう一度実行してください。",
    "zh": "无法打开配置文件，请检查路径是否正确，然后再次运行该程序以继续安装过程。",
    "zh-TW": "無法開啟設定檔，請檢查路徑是否正確，然後再次執行該程式以繼續安裝程序。",
    "ko": "설정 파일을 열 수 없습니다. 경로가 올바른지 확인한 후 다시 실행하십시오.",
    "ru": "Не удалось открыть файл настроек: проверьте путь и запустите программу снова.",
    "el": "Δεν ήταν δυνατό το άνοιγμα του αρχείου ρυθμίσεων. Ελέγξτε τη διαδρομή και δοκιμάστε ξανά.",
    "fr": "Échec de la connexion à la base de données, l'opération a été annulée après un délai dépassé.",
    "de": "Die Einstellungen konnten nicht geöffnet werden; überprüfen Sie bitte den Pfad und wählen Sie später.",
    "pl": "Nie można otworzyć pliku ustawień. Sprawdź ścieżkę i spróbuj ponownie później, proszę.",
    "tr": "Ayar dosyası açılamadı. Lütfen yolu kontrol edip işlemi yeniden başlatmayı deneyiniz.",
    "he": "לא ניתן לפתוח את קובץ ההגדרות. בדוק את הנתיב ונסה שוב מאוחר יותר בבקשה.",
    "ar": "تعذر فتح ملف الإعدادات، يرجى التحقق من المسار ثم المحاولة مرة أخرى لاحقا.",
    "th": "ไม่สามารถเปิดไฟล์การตั้งค่าได้ กรุณาตรวจสอบเส้นทางแล้วลองใหม่อีกครั้งในภายหลัง",
}
LEGACY = [
    ("ja", "shift_jis"),
    ("ja", "euc_jp"),
    ("zh", "gbk"),
    ("zh-TW", "big5"),
    ("ko", "euc_kr"),
    ("ru", "cp1251"),
    ("ru", "koi8_r"),
    ("ru", "cp866"),
    ("ru", "iso8859_5"),
    ("el", "cp1253"),
    ("fr", "cp1252"),
    ("fr", "cp850"),
    ("de", "latin_1"),
    ("pl", "cp1250"),
    ("pl", "iso8859_2"),
    ("tr", "cp1254"),
    ("he", "cp1255"),
    ("ar", "cp1256"),
    ("th", "tis_620"),
]
UNITS = [("ru", "utf-16-le"), ("de", "utf-16-be"), ("fr", "utf-32-le"), ("ko", "utf-16-le")]
LOG = [f"2026-03-04 12:{n // 60:02d}:{n % 60:02d} INFO task {n} finished in {n * 7} ms" for n in range(200)]


def around(text: str, end: str) -> list[str]:
    return [text, f"{text}{end}", end.join([*LOG[:100], text, *LOG[100:]])]


@pytest.mark.parametrize(("language", "charset"), LEGACY)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_legacy_text_is_decoded_as_declared_or_else_as_detected(language: str, charset: str, end: str) -> None:
    for text in around(TEXTS[language], end):
        data = text.encode(charset)
        for media_type in (f"text/plain; charset={charset.replace('_', '-')}", None):
            found = find_charset(data, media_type, is_whole=True)
            assert found is not None
            assert data.decode(found.name) == text
            assert found.is_guess is (media_type is None)


@pytest.mark.parametrize(("language", "charset"), UNITS)
def test_wide_units_are_told_by_their_mark_or_their_nuls(language: str, charset: str) -> None:
    data = "\n".join(["first line", TEXTS[language]]).encode(charset)
    assert find_charset(data, None, is_whole=True) == Charset(charset, is_guess=True)
    mark = "\ufeff".encode(charset)
    assert find_charset(mark + data, "text/plain; charset=latin-1", is_whole=True) == Charset(charset, mark=len(mark))


@pytest.mark.parametrize("media_type", [None, "text/html; charset=iso-8859-1", "text/plain; charset=utf-16"])
def test_what_is_utf_8_is_utf_8_whatever_is_declared(media_type: str | None) -> None:
    for text in TEXTS.values():
        assert find_charset(text.encode(), media_type, is_whole=True) is None
        assert find_charset(text.encode()[:-1], media_type, is_whole=False) is None


@pytest.mark.parametrize("text", ["un café", "Straß", "é"])
def test_a_last_letter_that_may_be_half_of_utf_8_is_read_as_declared(text: str) -> None:
    declared, data = "text/plain; charset=iso-8859-1", text.encode("latin-1")
    assert decode(data, declared) == text
    assert find_charset(data, declared, is_whole=False) is None
    assert find_charset(f"déjà {text}é".encode()[:-1], declared, is_whole=True) is None


def test_utf_8_with_a_few_damaged_bytes_is_no_other_charset() -> None:
    text = "\n".join(TEXTS.values()).encode()
    assert find_charset(text[:300] + b"\xff" + text[300:], None, is_whole=True) is None


def test_a_declaration_that_does_not_fit_is_not_believed() -> None:
    found = find_charset(TEXTS["ja"].encode("shift_jis"), "text/plain; charset=utf-16", is_whole=True)
    assert found == Charset("cp932", is_guess=True)


def test_lines_that_are_not_utf_8_are_read_by_what_they_look_like() -> None:
    lines = [TEXTS["de"], *(f"step {n} of the build" for n in range(50))]
    legacy = "Überprüfung der Größe für Müller übersprungen"
    data = "\n".join(lines).encode() + b"\n" + legacy.encode("cp1252") + b"\n" + lines[0].encode()
    found = find_charset(data, None, is_whole=True)
    assert found == Charset("utf-8", "cp1252", is_guess=True)
    for size in (1, 7, 100):
        decoder = LineDecoder("cp1252")
        texts = [decoder.decode(data[at : at + size]) for at in range(0, len(data), size)]
        assert "".join([*texts, decoder.decode(b"", is_last=True)]) == "\n".join([*lines, legacy, lines[0]])


def test_a_legacy_line_in_a_long_line_is_detected() -> None:
    text = json.dumps({"out": "\n".join(["step of the build is done"] * 100 + [TEXTS["zh"]])}, ensure_ascii=False)
    assert find_charset(text.encode("gbk"), None, is_whole=True) == Charset("gb18030", is_guess=True)


def test_two_byte_units_that_would_be_words_of_ascii_are_not_believed() -> None:
    data = b"step of the build is done\n" * 50 + "Größe\n".encode("cp1252")
    assert find_charset(data, "text/plain; charset=utf-16", is_whole=True) == Charset("cp1252", is_guess=True)


def test_iso_2022_is_told_by_its_escapes() -> None:
    assert decode(TEXTS["ja"].encode("iso2022_jp"), None) == TEXTS["ja"]


@pytest.mark.parametrize("form", ["random", "high", "integers", "floats"])
def test_binary_data_is_no_text(form: str) -> None:
    rng = random.Random(7)
    for size in (40, 400, 4_000):
        data = {
            "random": lambda size=size: rng.randbytes(size),
            "high": lambda size=size: bytes([0x80]) * size,
            "integers": lambda size=size: struct.pack(
                f"<{size // 2}h", *[rng.randint(-999, 999) for _ in range(size // 2)]
            ),
            "floats": lambda size=size: struct.pack(f"<{size // 4}f", *[rng.random() * 99 for _ in range(size // 4)]),
        }[form]()
        assert find_charset(data, None, is_whole=True) is None
