"""A planted sentence is found by a question about it, in every script, with lines and without."""

# ruff: noqa: RUF001 - other scripts

from typing import Literal
from unicodedata import normalize

import pytest

from passages.passage_requests import ask
from reading.reading_harness import ReadingHarness

CASES = {
    "english": (
        "The committee approved the harbour extension in March 1987.",
        "When was the harbor or HARBOUR extension approved?",
        "The weather in the north was mild and many people walked along the river. ",
    ),
    "french-without-accents": (
        "Le conseil a rejeté l'élargissement du théâtre municipal.",
        "Qui a rejete l'elargissement du theatre ?",
        "Les habitants de la ville aiment se promener le long du fleuve en automne. ",
    ),
    "german-sharp-s": (
        "Die Straßenbahn wurde 1902 elektrifiziert.",
        "Wann wurden die Strassenbahnen elektrifiziert?",
        "Das Wetter im Norden war mild und viele Menschen gingen am Fluss spazieren. ",
    ),
    "russian": (
        "Профессор Иванов открыл новую звезду в созвездии Лебедя.",
        "Кто открыл новые звёзды в созвездии Лебедь?",
        "Погода на севере была мягкой, и многие люди гуляли вдоль реки. ",
    ),
    "greek-without-accents": (
        "Ο καθηγητής ανακάλυψε ένα νέο άστρο στον αστερισμό του Κύκνου.",
        "ποιος ανακαλυψε νεο αστρο στον αστερισμο Κυκνου;",
        "Ο καιρός στον βορρά ήταν ήπιος και πολλοί άνθρωποι περπατούσαν. ",
    ),
    "arabic": (
        "اكتشف العالم نجماً جديداً في كوكبة الدجاجة عام 1987.",
        "متى اكتشف نجم جديد في كوكبة الدجاجة؟",
        "كان الطقس في الشمال معتدلا وكان الكثير من الناس يمشون على طول النهر. ",
    ),
    "hebrew": (
        "הפרופסור גילה כוכב חדש בקבוצת הברבור בשנת 1987.",
        "מי גילה את הכוכב בקבוצת ברבור?",
        "מזג האוויר בצפון היה נוח ואנשים רבים הלכו לאורך הנהר. ",
    ),
    "hindi": (
        "वैज्ञानिक ने हंस तारामंडल में एक नया तारा खोजा।",
        "हंस तारामंडल में तारा किसने खोजा?",
        "उत्तर में मौसम हल्का था और कई लोग नदी के किनारे चल रहे थे। ",
    ),
    "thai": (
        "นักวิทยาศาสตร์ค้นพบดาวดวงใหม่ในกลุ่มดาวหงส์",
        "ใครค้นพบดาวดวงใหม่ในกลุ่มดาวหงส์",
        "อากาศทางเหนืออบอุ่นและผู้คนมากมายเดินเล่นริมแม่น้ำ ",
    ),
    "chinese": (
        "天文学家在天鹅座发现了一颗新恒星。",
        "谁在天鹅座发现了新恒星？",
        "北方的天气很温和，许多人沿着河边散步。",
    ),
    "japanese": (
        "天文学者は白鳥座で新しい恒星を発見した。",
        "白鳥座で恒星を発見したのは誰ですか？",
        "北の天気は穏やかで、多くの人々が川沿いを歩いていました。",
    ),
    "korean": (
        "천문학자는 백조자리에서 새로운 별을 발견했다.",
        "백조자리에서 별을 발견한 사람은 누구입니까?",
        "북쪽의 날씨는 온화했고 많은 사람들이 강을 따라 걸었습니다. ",
    ),
    "identifier": ("raise TimeoutError(f'{conn_pool_size} exhausted')", "connPoolSize", "value = other.compute(3)\n"),
    "path": ("see src/net/pool.py:118 for the reason", "src/net/pool.py", "see the other file for more of it\n"),
    "error-code": ("error[E0502]: cannot borrow `x` as mutable", "what is E0502", "warning: unused variable `y`\n"),
}


@pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "one-line"])
@pytest.mark.parametrize("name", CASES)
async def test_the_sentence_that_answers_is_found_in_a_thousand_others(
    shelf: ReadingHarness, name: str, end: str
) -> None:
    needle, query, other = CASES[name]
    text = (other + end) * 400 + needle + end + (other + end) * 900
    answer = await ask(shelf, text.encode(), query, 256)
    best = max(answer.windows, key=lambda passage: passage.score)
    assert needle.rstrip() in best.text
    assert not answer.partial


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("query", ["geprüft", "résumé", "angstrom", "gepruft resume Ångström"])
async def test_accents_make_no_difference_however_they_are_written(
    shelf: ReadingHarness, form: Literal["NFC", "NFD"], query: str
) -> None:
    line = normalize(form, "Das Résumé wurde von Ångström geprüft.")
    data = "\n".join(["etwas anderes"] * 300 + [line] + ["etwas anderes"] * 300).encode()
    answer = await ask(shelf, data, normalize("NFC" if form == "NFD" else "NFD", query))
    assert line in answer.windows[0].text
    assert answer.missing == []


@pytest.mark.parametrize("name", CASES)
async def test_it_is_found_in_four_megabytes_and_across_the_ends_of_blocks(shelf: ReadingHarness, name: str) -> None:
    needle, query, other = CASES[name]
    unit = (other + "\n").encode()
    before = unit * ((1 << 20) // len(unit))
    before += b"x" * ((1 << 20) - len(before) - len(needle.encode()) // 2 - 1) + b"\n"
    data = before + needle.encode() + b"\n" + unit * ((4 << 20) // len(unit))
    answer = await ask(shelf, data, query, 256)
    assert needle in max(answer.windows, key=lambda passage: passage.score).text
