"""The well-known data sets of mathematical problems: where each one is, and what its columns are called."""

from __future__ import annotations

from agon_env.tasks.dataset import Dataset, Origin


class DeepMath(Dataset):
    """Hard problems with one verifiable answer; difficulty from 1 to 10 (arXiv 2504.11456)."""

    name = "deepmath"
    origin = Origin("zwhe99/DeepMath-103K", sample="deepmath_sample.jsonl")


class GSM8K(Dataset):
    """Word problems of grade schools (arXiv 2110.14168). Its own test questions are hub_split="test"."""

    name = "gsm8k"
    origin = Origin("openai/gsm8k", subset="main", columns={"final_answer": "answer"}, sample="gsm8k_sample.jsonl")


class MATH(Dataset):
    """Problems of American competitions for schools; difficulty from level 1 to 5 (arXiv 2103.03874)."""

    name = "math"
    origin = Origin(
        "DigitalLearningGmbH/MATH-lighteval",
        columns={"question": "problem", "final_answer": "solution", "difficulty": "level", "topic": "type"},
        sample="math_sample.jsonl",
    )


class MATH500(Dataset):
    """The 500 test problems of MATH that are commonly reported (arXiv 2305.20050)."""

    name = "math500"
    origin = Origin(
        "HuggingFaceH4/MATH-500",
        hub_split="test",
        columns={"question": "problem", "final_answer": "answer", "difficulty": "level", "topic": "subject"},
    )


class AIME(Dataset):
    """The American Invitational Mathematics Examination: answers are whole numbers from 0 to 999."""

    name = "aime"
    origin = Origin(
        "HuggingFaceH4/aime_2024", columns={"question": "problem", "final_answer": "answer"}, sample="aime_sample.jsonl"
    )


class AMC(Dataset):
    """The American Mathematics Competitions, as restated with numeric answers for the AIMO prize."""

    name = "amc"
    origin = Origin("AI-MO/aimo-validation-amc", columns={"question": "problem", "final_answer": "answer"})


class OlympiadBench(Dataset):
    """Olympiad problems in English whose answer can be checked (arXiv 2402.14008): lists, units and tolerances occur."""

    name = "olympiadbench"
    origin = Origin(
        "Hothan/OlympiadBench",
        subset="OE_TO_maths_en_COMP",
        columns={"difficulty": "", "topic": "subfield", "tolerance": "error"},  # its difficulty is the word "Competition"
    )


class Minerva(Dataset):
    """Undergraduate problems in science and mathematics (arXiv 2206.14858)."""

    name = "minerva"
    origin = Origin("math-ai/minervamath", hub_split="test", columns={"final_answer": "answer"})


BENCHMARKS: dict[str, type[Dataset]] = {
    benchmark.name: benchmark for benchmark in (DeepMath, GSM8K, MATH, MATH500, AIME, AMC, OlympiadBench, Minerva)
}
"""Name of the task → data set."""
