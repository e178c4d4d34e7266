"""Recurrent layers: RNN, GRU and LSTM cells, stacks, dropout, initialisation."""
