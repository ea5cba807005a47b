"""Rules over a submission or a round."""
