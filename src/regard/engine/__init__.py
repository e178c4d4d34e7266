"""Running a trained model without torch: CTranslate2 on a converted copy, which starts at once and is fast on a CPU."""
