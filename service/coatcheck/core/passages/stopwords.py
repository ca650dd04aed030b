"""Words that ask rather than name: they are searched for only if a query has no others.

These are short lists of the most frequent words. A missing word does little harm, because words that are everywhere in
a document have little weight in any case.
"""

# ruff: noqa: RUF001 - words of other scripts

import re
from typing import Final

from coatcheck.core.passages.fold import fold

_ENGLISH: Final = """
a about after again all also am an and any are aren as at be because been before being below between both but by can
cannot could couldn did didn do does doesn doing don down during each few for from further get gets give given got had
hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
just let
ll many may me might more most much must my myself no nor not now of off on once only or other our ours out over own
please re s said same say says shall she should shouldn so some such t tell than that the their theirs them themselves
then there these they this those through to too under until up upon us ve very was wasn we were weren what whatever
when where whether which while who whom whose why will with within without won would wouldn yes yet you your yours
did find show explain describe according
"""
_OTHERS: Final = """
aber als am an auch auf aus bei bin bis bist da damit das dass dein dem den der des die dies diese dieser doch
du durch
ein eine einem einen einer eines er es fur hat hatte ich ihr ihre im in ist ja kann mein mit nach nicht noch nur oder
ob sein seine sich sie sind so uber um und uns unter vom von vor wann war waren warum was wegen welche welchem welchen
welcher welches wenn wer werden wie wieviele wird wo wurde wurden zu zum zur
al ante antes como con cual cuales cuando cuanto cuantos de del desde donde el ella ellos en entre era es esta este
esto fue fueron ha hay la las lo los mas no o para pero por porque que quien quienes se ser si sin sobre son su sus
tras un una unas unos y
a au aux avec ce ces cette combien comme comment d dans de des dont du elle en est et etait ete etre il ils j l la le
les leur leurs lui mais n ne nous on ont ou par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi
s sa sans ses son sont sur un une vous
alla anche che chi come con cosa cui da dal dalla dei del della delle di dove e fu gli ha i il in io la le lo ma nel
nella non o ogni per perche piu quale quali quando quanti quanto sono su sua sul suo tra un una uno
ao aos as ate com da das do dos e ela ele em foi mais mas na nas nao no nos o os para pela pelo qual quais quantos que
quem seu sua um uma
aan bij dat de die dit een en er het hoe hoeveel in is met naar niet of om ook op te uit van voor waar waarom wanneer
wat welk welke werd wie wordt zijn
bir bu da de hangi icin ile kac kim mi mu ne neden nerede nasil olarak ve
а без более бы был была были было быть в вам вас во вот все всех вы где да для до его ее если есть еще же за и из или
им их к как какая какие каким каких какое какои какую когда которые которыи кто ли меня мне много может мы на над не
него нее нет ни них но о об он она они оно от по под почему при с со сколько так также такои там тем то того тоже
только ты у уже что чтобы чье чем эта эти это этого этои этот я
απο αυτη αυτο για δε δεν ειναι εχει η ηταν και κατα με μια μας να ο οι οπου οτι ποια ποιες ποιο ποιοι ποιος ποτε που
πως ποσα ποσες ποσο ποσοι σε σημερα στα στη στην στις στο στον στους τα τη την της τι τις το τον του τους των ως γιατι
ما ماذا متى من أين اين كيف كم لماذا هل هو هي في على عن الى إلى أن ان التي الذي مع هذا هذه كان كانت تم قد لا و او ذلك
בין את אם או איך איפה אל אשר גם היא הוא היה היו הם זה זו כמה כי לא לפי מה מי מתי על עם של כל למה באיזה איזה אילו
और इस इसके उस एक का कि किस किसे किसने की के को कौन कब कहां कहाँ क्या क्यों कितने कितनी कैसे था थी थे तक ने में पर भी
यह वह से है हैं हो कर किया जो नहीं गया गई लिए
ai bang bao boi cac cai cho co cua da dau duoc gi hay khi khong la lam mot nao nguoi nhieu nhu nhung noi o ra sao tai
the trong tu va vao ve vi voi
"""
STOPWORDS: Final = frozenset(fold(word) for word in (_ENGLISH + _OTHERS).split())
"""Folded."""

_ASKING: Final = """
什么 甚么 什麼 多少 哪个 哪個 哪些 哪里 哪裡 哪一 哪年 为什么 為什麼 怎么 怎麼 怎样 怎樣 如何 几个 幾個 何时
何時 谁 誰 请问 請問
いつ どこ なに なぜ だれ どの どんな どれ どれくらい どのような いくつ でしたか ですか ましたか ますか でした
です ました ます という された
される について において によって 何人 何年 誰
무엇입니까 무엇인가요 무엇 언제 어디 누구 누가 어떤 어느 얼마나 얼마 입니까 인가요 습니까 였습니까 했습니까
하였는가 하는가 인가
อะไร เมื่อไร เมื่อใด ที่ไหน ที่ใด ทำไม อย่างไร ใคร กี่ เท่าไร เท่าใด หรือไม่ บ้าง ไหน
"""
ASKING: Final = re.compile("|".join(sorted(set(_ASKING.split()), key=lambda word: (-len(word), word))))
"""Matches question words in scripts without blanks, where they are cut out of runs; the longest counts."""
PARTICLES: Final = frozenset(
    "的了是在和与與或被把有之吗嗎呢哪个個这這那不也就都而及其所は가が을を를に에で의の은と는も이か도へ로"
)
"""Characters that connect words: a pair with one of them means little."""
