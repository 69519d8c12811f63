# cases_recurrent.py: recurrent layers against PyTorch: rows as in cases_windows.py. Outputs, last states
# and all gradients come into one tensor.
# SPDX-License-Identifier: MIT
# Examples lie along axis 0, as they come in any order.
TAKES = {"seq": "x[:, :, :, 0]", "row": "x[:, 0, 0]"}

MODULES = [
    ("rnn", "Outputs(nn.RNN(6, 5))", "Outputs(nn.RNN(6, 5))", "seq"),
    ("rnn_relu", "Outputs(nn.RNN(6, 3, 2, \"relu\", bias = false))",
     "Outputs(nn.RNN(6, 3, 2, 'relu', bias=False))", "seq"),
    ("gru", "Outputs(nn.GRU(6, 5))", "Outputs(nn.GRU(6, 5))", "seq"),
    ("gru_deep", "Outputs(nn.GRU(6, 3, num_layers = 2, bidirectional = true, batch_first = true), first = true)",
     "Outputs(nn.GRU(6, 3, num_layers=2, bidirectional=True, batch_first=True), first=True)", "seq"),
    ("lstm", "Outputs(nn.LSTM(6, 5))", "Outputs(nn.LSTM(6, 5))", "seq"),
    ("lstm_deep", "Outputs(nn.LSTM(6, 3, 2, bidirectional = true))",
     "Outputs(nn.LSTM(6, 3, 2, bidirectional=True))", "seq"),
    ("lstm_first", "Outputs(nn.LSTM(6, 4, batch_first = true), first = true)", "Outputs(nn.LSTM(6, 4, batch_first=True), first=True)", "seq"),
    ("lstm_bare", "Outputs(nn.LSTM(6, 4, bias = false))", "Outputs(nn.LSTM(6, 4, bias=False))", "seq"),
    ("gru_lengths", "Outputs(nn.GRU(6, 4, bidirectional = true), true)",
     "Outputs(nn.GRU(6, 4, bidirectional=True), True)", "seq"),
    ("lstm_lengths", "Outputs(nn.LSTM(6, 4, 2, bidirectional = true), true)",
     "Outputs(nn.LSTM(6, 4, 2, bidirectional=True), True)", "seq"),
    ("rnn_cell", "Cell(nn.RNNCell(6, 4))", "Cell(nn.RNNCell(6, 4))", "row"),
    ("gru_cell", "Cell(nn.GRUCell(6, 4))", "Cell(nn.GRUCell(6, 4))", "row"),
    ("lstm_cell", "Cell(nn.LSTMCell(6, 4))", "Cell(nn.LSTMCell(6, 4))", "row"),
]

MODULES_TEXT = """
import nn
import optim
fn waves(shape) { return 0.5 * sin(0.7 * (1 + arange(prod(shape)))).view(shape) }
module Outputs(net, lengths = false, first = false) {
    fn forward(x) {
        let n = 1 + (x[:, 0] > 0).sum(1) // 2
        let all = net(first ? x : x.transpose(0, 1), lengths = lengths ? n : none)
        let y = first ? all[0] : all[0].transpose(0, 1)
        for i in range(1, len(all)) {
            let s = all[i].transpose(0, 1)
            y = y + i * (s * waves(s.shape[1:])).sum()
        }
        return y
    }
}
module Cell(net) {
    fn forward(x) {
        let all = net(x)
        return kind(all) == "list" ? all[0] + 2 * all[1] : all
    }
}
module All {
MEMBERS    fn forward(x: [B, 4, 6, 6]) -> (RESULTS) {
BODY    }
    fn loss(x: [B, 4, 6, 6]) -> (loss: []) {
        let ys = forward(x)
        let sum = zeros([])
        for y in ys { sum = sum + (y * waves(y.shape[1:])).sum() }
        return sum
    }
}
model net = All()
train net.loss with optim.SGD(lr = 0.01)
"""
