"""Scaling methods: parametric maps of the logits."""
