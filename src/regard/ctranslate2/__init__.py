"""Running a trained model without torch: CTranslate2 on a converted copy."""
