r"""Answers in other dresses that leave out, add or split something: as in `variants`, judged by hand, kind by kind."""

SAME: dict[str, list[tuple[str, str]]] = {
    "percentages": [
        (r"\frac{\pi}{4}\%", r"\frac{\pi}{4}"), (r"x=36\%", "36"), ("36", r"36\%"), ("0.36", r"x=36\%"),
        (r"\sqrt{2}\%", r"\sqrt{2}\%"),
    ],
    "boxes_of_one_answer": [
        (r"\{3,8\}", r"3} and \boxed{8"), ("3, 8", r"8}$, $\boxed{3"), ("3, 8", r"3} \quad \text{or} \quad \boxed{8"),
        (r"\pm\sqrt{2}", r"\sqrt{2}}$ and $\boxed{-\sqrt{2}"), ("1, 2, 3", r"1}, \boxed{2}, and \boxed{3"),
        ("(3,-4)", "x=3}\n\\boxed{y=-4"), ("7", r"7} \boxed{7"), ("7", "6}\n\n\\boxed{7"), ("7", r"6}. No: \boxed{7"),
    ],
    "amounts": [
        (r"90^\circ", r"\frac{\pi}{2}"), (r"\frac{3\pi}{4}", r"135^\circ"), (r"\pi", r"180^\circ"),
        (r"22.5^\circ", r"\pi/8"), (r"30^\circ", r"\frac{\pi}{6}\text{ radians}"),
        (r"150^\circ", r"\theta = \frac{5\pi}{6}"), (r"\frac{180}{\pi}^\circ", r"1 \text{ radian}"),
        (r"95\text{ minutes}", r"1\text{ hour }35\text{ minutes}"), ("1 hour and 35 minutes", "95 min"),
        (r"2\text{ hours }15\text{ minutes}", r"2.25\text{ hours}"), (r"4\text{ hours}", r"240\text{ minutes}"),
        (r"100\text{ seconds}", r"1\text{ minute and }40\text{ seconds}"), (r"2\text{ days}", "48 hours"),
        (r"75\text{ inches}", r"6\text{ feet }3\text{ inches}"), (r"1.5\text{ m}", r"150\text{ cm}"),
        ("2 kg", "2000 g"), (r"150\text{ cm}", "1.5 m"), (r"3\text{ h}", "180 min"),
        (r"\sqrt{2}\text{ m}", r"100\sqrt{2}\text{ cm}"),
        (r"2\text{ m}^2", r"20000\text{ cm}^2"), (r"\$1.25", "125 cents"),
        (r"36\text{ km/h}", r"10\text{ m/s}"), (r"60\text{ mph}", r"88\text{ ft/s}"),
        (r"2\text{ g/cm}^3", r"2000\text{ kg/m}^3"),
        (r"1\text{ km/min}", r"60\text{ km/h}"),
    ],
    "left_out": [
        ("264_7", "264"), ("2F_{16}", "2F"), (r"110_{\text{two}}", "110"), ("264_7", "0264"), ("5_{10}", "5"),
        ("264_7", "264 (base 7)"), ("5:8", r"\frac{5}{8}"), ("5:8", "5/8"), ("7:2", r"\frac72"),
        ("5 : 8", r"\frac{10}{16}"),
    ],
    "constants_of_integration": [
        (r"\frac{x^4}{4}+C", r"\frac{x^4}{4}+c"), (r"\sin x + C", r"K + \sin x"), ("x^2+C", r"x\cdot x+k"),
        ("x^2-x+C", "x^2+c-x"), ("e^{x}+C_1", "e^x+c"), ("y = x^2+C", "y=x^2+c"), (r"\ln|x|+C", r"\ln\lvert x\rvert+c"),
    ],
    "choices_with_text": [
        ("B", r"\text{(B) } 7"), ("B", "B) 7"), ("B", r"\textbf{(B)}\ \frac{1}{2}"), ("B", r"\text{B. Paris}"),
        ("B", "B: x^2+1"), ("B", r"\text{B) The sum is even}"), ("B", r"\text{Option B}"), ("B", r"\text{Choice (B)}"),
        ("(B)", r"\text{B) } 7"), ("B", r"\text{(B) a triangle with } 3 \text{ sides}"), ("B", "(B)~f(x)=x"),
    ],
    "dashes_and_slashes": [
        ("-7", "‑7"), ("-7", "﹣7"), ("-7", "－7"), ("3-x", "3‐x"), (r"\frac{1}{2}", "1⁄2"), ("2.5", "2 1∕2"), ("3:4", "3∶4"),
    ],
}  # fmt: skip

DIFFERENT: dict[str, list[tuple[str, str]]] = {
    "percentages": [
        (r"\frac{\pi}{4}", r"\frac{\pi}{4}\%"), (r"e=\frac{1}{2}", r"0.5\%"), ("x=0.5", r"0.5\%"), (r"\sqrt{2}", r"\sqrt{2}\%"),
        (r"\frac{\pi}{4}\%", r"\frac{\pi}{4}\text{ cm}"), ("0.5", r"0.5\%"), ("n", r"n\%"),
    ],
    "boxes_of_one_answer": [
        ("D", r"A} \boxed{B} \boxed{C} \boxed{D"), ("D", r"A}\boxed{D"), ("D", "A}\n\\boxed{D"),
        ("D", r"A}$ or $\boxed{D"), ("D", r"A} / \boxed{D"), ("D", r"A}\,\text{or}\,\boxed{D"),
        ("8", r"3} and \boxed{8"), ("8", r"8}, \boxed{9"), ("3", r"3} \boxed{8"), ("3, 8", r"3} is wrong, \boxed{8"),
        ("3, 8", "3}\n\n\\boxed{8"), ("38", r"3}\boxed{8"), ("3, 8", r"3}, \boxed{8}, \boxed{9"),
    ],
    "amounts": [
        ("60", r"\frac{\pi}{3}"), (r"60^\circ", r"\frac{\pi}{6}"), (r"60^\circ", "1.0472"),
        (r"60^\circ", r"60\text{ radians}"), (r"60^\circ", r"60\pi"), (r"\frac{\pi}{3}", "60"), ("3", r"540^\circ"),
        (r"1\text{ radian}", r"57.3^\circ"), (r"2\pi", r"2\pi^\circ"), (r"\cos\frac{\pi}{3}", r"60^\circ"),
        (r"x=60^\circ", r"y=\frac{\pi}{3}"), (r"95\text{ minutes}", r"1\text{ hour }36\text{ minutes}"),
        ("95", r"1\text{ hour }35\text{ minutes}"), (r"95\text{ minutes}", r"35\text{ minutes and }1\text{ hour}"),
        (r"95\text{ minutes}", r"0\text{ hours and }95\text{ minutes}"),
        (r"95\text{ minutes}", r"1\text{ hour or }35\text{ minutes}"),
        (r"95\text{ minutes}", r"1\text{ hour, }35\text{ minutes}"),
        (r"90\text{ minutes}", r"2\text{ hours and }-30\text{ minutes}"),
        (r"95\text{ minutes}", r"1\text{ m }35\text{ minutes}"), (r"95\text{ minutes}", r"1\text{ hour }35"),
        (r"95\text{ minutes}", "95 hours"), ("2 kg", "200 g"), ("2 kg", "2 g"), ("2 kg", "2000 m"),
        ("2 cm", "2m"), ("1 m", "1 kg"), (r"1\text{ m}^2", r"100\text{ cm}^2"),
        (r"1\text{ m}", r"100\text{ cm}^2"), (r"1\text{ m}^2", r"10000\text{ cm}"), (r"\$5", "5 cents"),
        ("2 m", "6.56 ft"), (r"\text{€}5", "500 cents"), (r"25^\circ\text{C}", r"\frac{5\pi}{36}"),
        ("2 hours", r"120\text{ m}"), (r"0.5\%", r"\frac{\pi}{360}"), ("3 hours 20 minutes", "200"),
        (r"36\text{ km/h}", r"36\text{ m/s}"), (r"10\text{ m/s}", r"10\text{ s/m}"), (r"10\text{ m/s}", r"10000\text{ mm}"),
        (r"10\text{ m/s}", r"10\text{ m/s}^2"), (r"60\text{ mph}", r"60\text{ km/h}"), (r"2\text{ g/cm}^3", r"2\text{ kg/m}^3"),
    ],
    "left_out": [
        ("264_7", "144"), ("264", "264_7"), ("264_7", "264_8"), ("264_7", "2647"), ("264_7", "462"),
        ("264_7", r"264\%"), ("264_7", r"264\text{ cm}"), ("264_7", "264.0"),
        ("264_7", "-264"), ("264_7", "264, 7"), ("264_7", "264 (base 8)"), ("A_{16}", "A"), ("A_5", "A"), ("x_1", "x"),
        ("29_8", "29"), ("0_2", ""), ("5:8", "8:5"), ("5:8", r"\frac{5}{8}\text{ cm}"),
        ("5:8", r"\frac{8}{5}"), ("5:8", "0.6"), ("5:8", "0.625"),
        ("5:8", "5"), (r"\frac{5}{8}", "5:8"), ("12:30", r"\frac{2}{5}"), ("5:8", r"\frac{5}{13}"), ("2:1", "2"),
        ("1:2:3", r"\frac{1}{2}"), ("5:0", r"\frac{5}{0}"), ("5:8", r"\frac{5}{8} \text{ or } \frac{5}{13}"),
    ],
    "constants_of_integration": [
        ("x^2+C", "x^2"), ("x^2", "x^2+C"), ("x^2+C", "x^2+x"), ("x^2+C", "x^2+cx"), ("x^2+C", "x^2+2c"),
        ("x^2+C", "2x+c"), ("x^2+C", "x^2+e"), ("x^2+C", "x^2+n"), ("x^2+C", "x^2+c+k"), ("x^2+C", "x^2-c+1"),
        ("x^2+c", "x^2+C"), ("A+B+C", "A+B+c"), ("a+cb", "a+Cb"), ("C", "c"), ("kx+C", "kx+k"), ("cx+C", "cx+c"),
        ("x^2+C=0", "x^2+c=0"), ("x^2+C", "x^2+5"),
    ],
    "dashes_and_slashes": [("7", "‑7"), ("-7", "7‑"), ("12", "1⁄2"), ("3:4", "4∶3"), ("34", "3∶4"), (r"\frac{3}{4}", "3∶4")],
    "choices_with_text": [
        ("B", r"\text{A) } 7"), ("B", "B7"), ("B", "B=7"), ("B", "7 (B)"), ("B", r"\text{B) } 7 \text{ or C) } 8"),
        ("B", r"\text{(B) 7, (C) 8}"), ("B", r"\text{B) is wrong}"), ("B", r"\text{not B) } 7"),
        ("B", r"\text{A or B) } 7"), ("B", r"\text{B) perhaps}"), ("B", r"\text{B) 7?}"),
        ("B", r"\text{B) false; A) true}"), ("B", r"\text{B) or c) } 7"), ("B", r"\text{B) b) c)}"), ("B", "B.C"),
        ("B", r"\text{(B) C}"), ("B", r"\text{Option C}"), ("B", r"\text{Options B, C}"), ("B", r"\text{No option B}"),
        ("B", "(B)(C)"), ("B", r"\text{B) } \boxed{C}"), ("(B) 7", "(B) 8"), ("7", r"\text{B) } 7"), ("B", "В"),
        ("B", "Β"), ("B", r"\text{В) } 7"),
    ],
}  # fmt: skip
