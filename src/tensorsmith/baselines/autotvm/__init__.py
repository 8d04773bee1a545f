"""AutoTVM: templates with knobs (`templates.py`), its policy (`policy.py`), and the models that guide its tuners."""
