"""A photo as phones take them: HEVC in boxes (ISO 23008-12), of which the boxes are made on the spot."""

import base64

_CONFIGURATION = base64.b85decode(
    "0R#vD005u(00000Jn#Vg{P_3)01pFT0096OKmiN^|NjIC00093pZEX(0{{R#x&lC90096dLID8;2mk;B0H62(00RI3JirtP7+G$llA7kgfB*"
    "mtfB*mk0EA)y0RRU?0l{*xVn6"
)
"""Of the decoder: what an hvcC box holds."""
_PICTURE = base64.b85decode(
    "000H5C;_e(p;|0w`G4)^bHqJ&))(RN4ZizzDMhHVd0eI0q9wSaHhw4+Twn6%BIexwrOFyY`@gYP8}Npa+JFq7P|b$a%B#{r{J)!lTL2wTW;P"
    "6F1so}icDF|49nuA7$T}VX0pXgp70e-_fJQUa2<7$!-"
    "X%9+rW2~otA1@(6D6%axc8ENBrN}yRq(K1#!0uw?&Ud_dz#sEZTV7$9sn#W9RPi4>EUwMCFuy=6Cso$R*+St?g$eAdn$)u(fw-"
    "H?PBeu;0;9;&eOsA%3EFz;5U3d5x<oywNel90BLM|^7{A&iG4Wl?tAkAa!IUKOaJ8UYjQLv??(RuNtF&8TObWZDN8iHQg*@*C_88laS~7PBf"
    "vG7Q&Nk3_n?6Bd*@xdrXU#ni<usxCb>_@IEBH5Sv*BA$AZm+V=gp(21l4CYef#noif(Kl`zS)g)#u#A-3qAKf`eN{&A7t9O%H9&FT8YwD7-"
    "?5?tIkUjdxb{MtkRTD)LDi#@=L=C8-"
    "fxE0~3mS<U;PRvY@xMJh{la19BEY`4@0S$P7UFj2Z`^Zcg;EEw~_!ULoxr;cSvdGQ+Vf}Fp?&sU`M_R~ACxI7)ssZka@34Py?grdFXV2D_KJ"
    "Al)zasG@vM3r)G>gfJ0W&gS>H<On;|jtCpc?cZOPRoV6CRehc7^NS4Ncp)p2}iFu8lx1qlP-"
    "|Xnt?{+<eB?f#!V6Z}8(XWqL1uKVf`9PaH8!t^e<mxLBM)a)~zEDoO$9LTGq($nwJ5)VtwM&eng4j6Rp1`0yqAXnDk^l@v|(85tD{`(P1kC3"
    "Cw)v>J+Ru^n<iE!0bfE1Rivckf&|JunB_t*UE)6Ec)AOfY-Gtct|FOegv!ldKi4gVX3lB*sLHgqg<i00guIcy^&hXnD+!5Xj~l>49+`TEn-"
    "By5TOHmA%wFfC^8?XJRk-%!g_MFb-u@YvGWl8_KsU^rm^Ojd>b`G7`z?I=p+yES+UI7kU-cD4%$`7r+Ear(cqDEKV^)!fRy3!wtlx`2_?dnS"
    ";p8zmZRD)ryl~-"
    "TAwBVFG!HNr6*r$;z~eIly`}&N8D;fo+}o3{uRury7F$!<;*(K>Sec%VDLziu%$4BFeZ<l?Qo+LJ(gt;30YN*oyBykQXsOoE&(ZW29gD1Eb="
    "m=rG<--"
    "Ybsrwavlgx#{vj6Z1C^=5LLc?{T`)fHeIG!P8GXL^GOCWD?WA!<S$5{pn(5Ombmj{?L&uu<?_9xZ1|QQ&S(<e(D+)WMYaM)XoDwm6h%Q{<;I"
    "zzqiD$`)^v2v?YapS%2Z77bectn{-t9Qv5gPaYdRh{@w;hWA71=@7mJ7CD>!r9-{NNY}f`jit6~yEt9`e6~!8Xp{#RMskg)e@&v4#v36-"
    "LvtP}(FIe&b)m>n%(>JM}&{20WvR8=iAnO71c9scgcw!>xSP6&tKXa&=06gjcuKz^PH5BmajNl})c2CaWh1{krIBxe@^GwHHVnCj*Pe58@%c"
    "`>BuBCI(LF11Db+-"
    "8>&>^>puf?&Bn@Dhte(u)TN6=GT!vLw=DqtcDY4Mxu>Xr&T9BQ*nz&RbtwSYQcRMAgrRPW$UDA^Z>0NT@Qak5;`WQQZHL*7V1EHGWBZ%}sO^"
    "yg43&6}J^XC{;T4dlB?qmkH9UI&qdJ|2`3d?`0O95pNlK{QB|7hSe@8E!sCnn|$FI!O)f6;oM-WVDK#U+;B!3v7ulTG+^Zj8l>`sUM>C)|XI"
    "HP7U^c*a>7h2D|Xwa$0i~jOCo!_>k-"
    "Lwnk`*!sgnq2q)KJ^&~iO>L(4aj>`K<hJ$0ajue08V8#+h=a)bI<ItOUf~EDYp=neihhS!&5jrn?TyAEhDdJAZB}l{XgbAGHHGU!t-"
    "Y#1JkAM"
)
"""SENTENCE's first half as HEVC, for nothing that we may use writes it: black on white, 640 x 96 pixels."""
TEXT = "The quick brown fox jumps"
SIZE = (640, 96)


def heic(
    *, claims: tuple[int, int] = SIZE, turned: int = 0, major: bytes = b"heic", picture: bytes = _PICTURE
) -> bytes:
    """`claims` to have so many pixels, is to be `turned` anticlockwise by so many degrees."""
    head = _box(b"ftyp", major, bytes(4), b"mif1", b"heic")
    # The place of the picture is in a box before it: told once to measure, once to say.
    length = len(head) + len(_meta(0, claims=claims, turned=turned, length=len(picture)))
    meta = _meta(length + 8, claims=claims, turned=turned, length=len(picture))
    return head + meta + _box(b"mdat", picture)


def _meta(offset: int, *, claims: tuple[int, int], turned: int, length: int) -> bytes:
    width, height = claims
    properties = [
        _box(b"hvcC", _CONFIGURATION),
        _full(b"ispe", width.to_bytes(4), height.to_bytes(4)),
        _full(b"pixi", b"\x01\x08"),
        _box(b"irot", bytes((turned // 90,))),
    ]
    place = offset.to_bytes(4) + length.to_bytes(4)
    return _full(
        b"meta",
        _full(b"hdlr", bytes(4), b"pict", bytes(13)),
        _full(b"pitm", b"\0\1"),
        _full(b"iloc", b"\x44\0", b"\0\1", b"\0\1", b"\0\0", b"\0\1", place),
        _full(b"iinf", b"\0\1", _box(b"infe", b"\2\0\0\0", b"\0\1", b"\0\0", b"hvc1", b"\0")),
        _box(b"iprp", _box(b"ipco", *properties), _full(b"ipma", b"\0\0\0\1", b"\0\1", b"\4\x81\2\3\x84")),
    )


def _box(kind: bytes, *contents: bytes) -> bytes:
    body = b"".join(contents)
    return (len(body) + 8).to_bytes(4) + kind + body


def _full(kind: bytes, *contents: bytes) -> bytes:
    return _box(kind, bytes(4), *contents)
