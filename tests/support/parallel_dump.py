#!/usr/bin/env python3
"""Dumps of one small transformer, un-split or as the ranks of a Megatron job would write them.

All values come from one un-split computation (forward, backward, gradients of parameters; float64, recorded as float32). The dump of a rank holds the slices that
this rank would have: of tensor-parallel layers, of pipeline stages and virtual chunks, of sequence and context parallelism, of experts, of data-parallel
replicas. So a merge of the ranks can be checked against the un-split dump.

As a module: `write(directory, Split(tp=2), model=Model(...))`; as a program: `parallel_dump.py OUT --tp 2 --pp 2 ...` (see --help).
"""
import argparse
import dataclasses
import json
import pathlib
import sys
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import gen_dump  # noqa: E402  (writer of .pt files)


# ------------------------------------------------------------------------------------------------------------- what is asked for
@dataclasses.dataclass(frozen=True)
class Model:
    hidden: int = 16
    heads: int = 4
    groups: int = 0  # groups of keys and values; 0: as many as heads
    layers: int = 4
    ffn: int = 32
    vocabulary: int = 32
    sequence: int = 8
    batch: int = 1
    gated: bool = False
    experts: int = 0  # 0: a dense MLP
    micro_batches: int = 1  # of the whole job; a replica has its share
    padding: int = 0  # rows of the word embedding beyond the vocabulary, as jobs add them so that it can be split
    seed: int = 0
    distinct_layers: int = 0  # layers beyond have the values of layer (number modulo this); 0: all are computed
    scale: tuple = ()  # ((parameter, factor), ...): `layers.1.mlp.linear_fc2.weight`

    @property
    def kv(self):
        return self.groups or self.heads


@dataclasses.dataclass(frozen=True)
class Split:
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    sequence_parallel: bool = False
    order: str = "tp-cp-ep-dp-pp"  # of the dimensions in the rank numbers, fastest first; ep lies along dp
    stages: tuple = ()  # layers of each virtual stage (pp * vpp numbers); empty: equal

    @property
    def ranks(self):
        return self.tp * self.cp * self.dp * self.pp

    def layers_of(self, model):
        count = self.pp * self.vpp
        if self.stages:
            assert len(self.stages) == count and sum(self.stages) == model.layers
            return list(self.stages)
        assert model.layers % count == 0
        return [model.layers // count] * count


@dataclasses.dataclass(frozen=True)
class Form:
    task: str = "statistics"
    md5: bool = False
    api: bool = True  # level mix; False: modules only (L0)
    backward: bool = True
    inject: tuple = ()  # ((kind, node name contains, argument contains, ranks), ...); kinds: nan, inf, noise:REL, ulp, scale:F


# ------------------------------------------------------------------------------------------------------------- tensors and their slices
class View:
    """Where a rank stands: coordinates, sizes, and whether the sequence is split between the linear layers."""

    def __init__(self, split, tp=0, cp=0):
        self.tp, self.cp, self.split = tp, cp, split

    def positions(self, sequence):
        """Positions of the sequence that a context-parallel rank has: chunks c and 2·cp-1-c."""
        n = self.split.cp
        if n == 1:
            return np.arange(sequence)
        chunk = sequence // (2 * n)
        return np.concatenate([np.arange(k * chunk, (k + 1) * chunk) for k in (self.cp, 2 * n - 1 - self.cp)])


class T:
    """A tensor of the un-split model and how ranks slice it: along `tp` = (dimension, blocks), along the sequence (dimension `seq`) with context
    parallelism, and also over the tensor-parallel ranks if `sp`. Or computed for each rank by `parts`."""

    def __init__(self, full=None, tp=None, seq=None, sp=False, grad=True, parts=None):
        self.full, self.tp, self.seq, self.sp, self.grad, self.parts = full, tp, seq, sp, grad, parts

    def local(self, view, gathered=False):
        """The slice of a rank; `gathered`: as it is after the gathering of sequence parallelism."""
        if self.parts is not None:
            return self.parts(view)
        a = self.full
        if self.seq is not None and view.split.cp > 1:
            a = np.take(a, view.positions(a.shape[self.seq]), axis=self.seq)
        n = view.split.tp
        if n > 1 and self.tp is not None:
            d, blocks = self.tp
            s = a.shape
            assert s[d] % (blocks * n) == 0, (s, d, blocks, n)
            a = a.reshape(s[:d] + (blocks, n, s[d] // (blocks * n)) + s[d + 1:])
            a = np.take(a, view.tp, axis=d + 1).reshape(s[:d] + (s[d] // n,) + s[d + 1:])
        elif n > 1 and self.sp and view.split.sequence_parallel and not gathered:
            a = np.split(a, n, axis=self.seq)[view.tp]
        return a


# ------------------------------------------------------------------------------------------------------------- nodes
class Node:
    """One call. The path of a module may hold {L}, the layer, and {E}, the expert of the rank; a node of kind "layer" or
    "expert" says which one and stands for its children."""

    def __init__(self, kind, name, inputs=(), outputs=(), kwargs=None, params=None, children=(), forward=None, when=None):
        self.kind, self.name, self.inputs, self.outputs = kind, name, list(inputs), list(outputs)
        self.kwargs, self.params, self.children = kwargs or {}, params or {}, [c for c in children if c is not None]
        self.forward = forward  # of a backward node of an API: the forward node (same call number)
        self.when = when  # of a communication node: which splits have it


def module(path, cls, inputs=(), outputs=(), kwargs=None, params=None, children=()):
    return Node("module", (path, cls), inputs, outputs, kwargs, params, children)


def module_backward(path, cls, inputs=(), outputs=(), children=()):
    return Node("module_backward", (path, cls), inputs, outputs, None, None, children)


def api(name, inputs=(), outputs=(), kwargs=None):
    return Node("api", name, inputs, outputs, kwargs)


def api_backward(forward, inputs=(), outputs=()):
    return Node("api_backward", forward.name, inputs, outputs, forward=forward)


def communication(name, group, when, inputs, outputs):
    """`when`: function of the split; `group`: axis."""
    return Node("communication", (name, group), inputs, outputs, when=when)


def reduces(split):
    return split.tp > 1 and not split.sequence_parallel


def scatters(split):
    return split.tp > 1 and split.sequence_parallel


def reduction(operand, whole, scattered):
    """Nodes after a partial sum: all_reduce, or with sequence parallelism reduce_scatter (first argument: its output)."""
    flat = T(seq=0, grad=False, parts=operand.parts)
    total = T(whole, seq=0, grad=False)
    out = T(scattered.full, seq=0, sp=True, grad=False)
    return [communication("all_reduce", "tp", reduces, [flat], [total]),
            communication("reduce_scatter_tensor", "tp", scatters, [out, flat], [out, flat])]


def gather(tensor):
    return communication("all_gather_into_tensor", "tp", scatters, [T(tensor.full, seq=0, grad=False), T(tensor.full, seq=0, sp=True, grad=False)],
                         [T(tensor.full, seq=0, grad=False)])


def flat(a):
    return a.reshape(-1, a.shape[-1])


# ------------------------------------------------------------------------------------------------------------- the model
class Parameters:
    def __init__(self, model):
        rng = np.random.default_rng([model.seed, 1])
        scales = dict(model.scale)
        h, f, v = model.hidden, model.ffn, model.vocabulary
        hn = h // model.heads
        qkv = (model.heads + 2 * model.kv) * hn

        def draw(name, *shape, offset=0.0, width=None):
            a = rng.normal(0.0, width if width is not None else shape[-1] ** -0.5, shape) + offset
            return (a * scales.get(name, 1.0)).astype(np.float32).astype(np.float64)

        self.embedding = draw("embedding.word_embeddings.weight", v, h, width=0.4)
        self.embedding = np.concatenate([self.embedding, np.zeros((model.padding, h))])
        self.layers = []
        for n in range(model.distinct_layers or model.layers):
            p = f"layers.{n}."
            layer = {
                "input_layernorm": draw(p + "input_layernorm.weight", h, offset=1.0, width=0.05),
                "qkv": draw(p + "self_attention.linear_qkv.weight", qkv, h),
                "proj": draw(p + "self_attention.linear_proj.weight", h, h),
                "proj_bias": draw(p + "self_attention.linear_proj.bias", h, width=0.05),
                "pre_mlp_layernorm": draw(p + "pre_mlp_layernorm.weight", h, offset=1.0, width=0.05),
            }
            width = 2 * f if model.gated else f
            experts = range(model.experts) if model.experts else [None]
            layer["router"] = draw(p + "mlp.router.weight", model.experts, h) if model.experts else None
            layer["mlp"] = [{"fc1": draw(p + "mlp.linear_fc1.weight", width, h), "fc1_bias": np.zeros(width),
                             "fc2": draw(p + "mlp.linear_fc2.weight", h, f), "fc2_bias": draw(p + "mlp.linear_fc2.bias", h, width=0.05)} for _ in experts]
            self.layers.append(layer)
        self.final = draw("final_layernorm.weight", h, offset=1.0, width=0.05)
        self.output = draw("output_layer.weight", v, h)


def rms_norm(x, weight):
    r = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return x * weight / r, r


def rms_norm_backward(x, weight, r, dy):
    g = weight * dy
    return g / r - x * (g * x).mean(-1, keepdims=True) / r**3, dy * x / r


def gelu(x):
    t = np.tanh(0.7978845608 * (x + 0.044715 * x**3))
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608 * (1 + 3 * 0.044715 * x * x)
    return 0.5 * x * (1 + t), slope


def hidden(a, grad=True):
    return T(a, seq=0, sp=True, grad=grad)


class Linear:
    """A linear layer: forward and backward nodes, gradients."""

    def __init__(self, path, weight, bias=None, column=True, blocks=1, hands_bias_on=False, seq=0, residual=hidden):
        self.path, self.column, self.blocks, self.hands_bias_on, self.seq = path, column, blocks, hands_bias_on, seq
        self.cls = "ColumnParallelLinear" if column else "RowParallelLinear"
        self.weight = T(weight, tp=(0, blocks) if column else (1, 1))
        self.bias = None if bias is None else T(bias, tp=(0, blocks) if column else None)
        self.residual = residual  # layout of what is not split over the features

    def wide(self, a, grad=True):
        return T(a, tp=(a.ndim - 1, self.blocks if self.column else 1), seq=self.seq, grad=grad)

    def gathered(self, a, grad=True):
        return T(a, seq=self.seq, grad=grad)

    def forward(self, x):
        """x: whole input. Returns the node and the whole output (with the bias, unless it is handed on)."""
        w, seq = self.weight, self.seq
        self.x = x
        y = x @ w.full.T
        transposed = T(w.full.T, tp=(1, self.blocks) if self.column else (0, 1))
        if self.column:
            product = api("Torch.matmul", [self.gathered(x), transposed], [self.wide(y)])
            if self.bias is not None:
                y = y + self.bias.full
            comm = [gather(self.residual(x))] if self.residual is hidden else []
            node = module(self.path, self.cls, [self.residual(x)], [self.wide(y), None], params=self.parameters(), children=comm + [product])
        else:
            wide = self.wide(x)
            partial = T(seq=seq, parts=lambda view: wide.local(view) @ w.local(view).T)
            product = api("Torch.matmul", [wide, transposed], [partial])
            out = y if self.hands_bias_on or self.bias is None else y + self.bias.full
            outputs = [self.residual(out)] + ([self.bias] if self.hands_bias_on else [])
            node = module(self.path, self.cls, [wide], outputs, params=self.parameters(),
                          children=[product] + reduction(partial, y, self.residual(y)))
            y = out
        return node, y

    def parameters(self):
        return {"weight": self.weight} | ({"bias": self.bias} if self.bias is not None else {})

    def backward(self, dy):
        """Returns the node, the whole gradient of the input, and the gradients of the parameters."""
        w = self.weight
        dx = dy @ w.full
        x_in = self.gathered(self.x) if self.column else self.wide(self.x)
        dy_in = self.wide(dy, grad=False) if self.column else self.gathered(dy, grad=False)

        def weight_gradient(view):
            return flat(dy_in.local(view)).T @ flat(x_in.local(view))

        d_weight = T(grad=False, parts=weight_gradient)
        second = api("Tensor.matmul", [T(grad=False, parts=lambda view: flat(dy_in.local(view)).T), T(grad=False, parts=lambda view: flat(x_in.local(view)))],
                     [d_weight])
        gradients = {"weight": d_weight}
        if self.column:
            partial = T(seq=self.seq, grad=False, parts=lambda view: dy_in.local(view) @ w.local(view))
            first = api("Tensor.matmul", [dy_in, T(w.full, tp=w.tp, grad=False)], [partial])
            node = module_backward(self.path, self.cls, [dy_in, None], [self.residual(dx, grad=False)],
                                   [first] + reduction(partial, dx, self.residual(dx)) + [second])
            if self.bias is not None:
                gradients["bias"] = T(grad=False, parts=lambda view: flat(dy_in.local(view)).sum(0))
        else:
            first = api("Tensor.matmul", [dy_in, T(w.full, tp=w.tp, grad=False)], [self.wide(dx, grad=False)])
            comm = [gather(self.residual(dy, grad=False))] if self.residual is hidden else []
            node = module_backward(self.path, self.cls, [self.residual(dy, grad=False)], [self.wide(dx, grad=False)], comm + [first, second])
            if self.bias is not None:
                own = self.residual(dy, grad=False)
                gradients["bias"] = T(grad=False, parts=lambda view: flat(own.local(view)).sum(0))
        return node, dx, gradients


class Norm:
    def __init__(self, path, weight):
        self.path, self.weight = path, T(weight)

    def forward(self, x):
        self.x = x
        y, self.r = rms_norm(x, self.weight.full)
        inner = api("NPU.npu_rms_norm", [hidden(x), self.weight], [hidden(y)])
        return module(self.path, "RMSNorm", [hidden(x)], [hidden(y)], params={"weight": self.weight}, children=[inner]), y

    def backward(self, dy):
        dx, each = rms_norm_backward(self.x, self.weight.full, self.r, dy)
        terms = hidden(each, grad=False)
        return (module_backward(self.path, "RMSNorm", [hidden(dy, False)], [hidden(dx, False)]), dx,
                {"weight": T(grad=False, parts=lambda view: flat(terms.local(view)).sum(0))})


class Attention:
    def __init__(self, path, model, layer):
        self.path, self.model = path, model
        self.qkv = Linear(path + ".linear_qkv", layer["qkv"])
        self.proj = Linear(path + ".linear_proj", layer["proj"], layer["proj_bias"], column=False, hands_bias_on=True)

    def heads(self, a, grad=True):
        return T(a, tp=(2, 1), seq=0, grad=grad)

    def scores(self, a, grad=True):
        return T(a, tp=(0, self.model.batch), seq=1, grad=grad)

    def forward(self, x):
        m = self.model
        hn, per_group = m.hidden // m.heads, m.heads // m.kv
        qkv_node, mixed = self.qkv.forward(x)
        s, b, _ = mixed.shape
        grouped = mixed.reshape(s, b, m.kv, per_group + 2, hn)
        self.q = grouped[..., :per_group, :].reshape(s, b, m.heads, hn)
        self.k, self.v = grouped[..., per_group, :], grouped[..., per_group + 1, :]
        keys, values = np.repeat(self.k, per_group, axis=2), np.repeat(self.v, per_group, axis=2)
        raw = np.einsum("sbnh,tbnh->bnst", self.q, keys) / np.sqrt(hn)
        masked = np.where(np.tril(np.ones((s, s), bool)), raw, -10000.0)
        e = np.exp(masked - masked.max(-1, keepdims=True))
        self.p = e / e.sum(-1, keepdims=True)
        context = np.einsum("bnst,tbnh->sbnh", self.p, values).reshape(s, b, m.hidden)
        as_rows = lambda a: a.reshape(b * m.heads, s, s)  # noqa: E731
        self.softmax = api("Functional.softmax", [self.scores(as_rows(masked)), -1], [self.scores(as_rows(self.p))])
        core = module(self.path + ".core_attention", "DotProductAttention", [self.heads(self.q), self.heads(self.k), self.heads(self.v)],
                      [T(context, tp=(2, 1), seq=0)], children=[self.softmax])
        proj_node, y = self.proj.forward(context)
        node = module(self.path, "SelfAttention", [hidden(x)], [hidden(y), self.proj.bias], children=[qkv_node, core, proj_node])
        return node, y + self.proj.bias.full

    def backward(self, dy):
        m = self.model
        hn, per_group = m.hidden // m.heads, m.heads // m.kv
        proj_node, dcontext, proj_grads = self.proj.backward(dy)
        s, b, _ = dcontext.shape
        dc = dcontext.reshape(s, b, m.heads, hn)
        keys, values = np.repeat(self.k, per_group, axis=2), np.repeat(self.v, per_group, axis=2)
        dp = np.einsum("sbnh,tbnh->bnst", dc, values)
        draw = self.p * (dp - (dp * self.p).sum(-1, keepdims=True))
        dq = np.einsum("bnst,tbnh->sbnh", draw, keys) / np.sqrt(hn)
        fold = lambda a: a.reshape(s, b, m.kv, per_group, hn).sum(3)  # noqa: E731
        dk = fold(np.einsum("bnst,sbnh->tbnh", draw, self.q) / np.sqrt(hn))
        dv = fold(np.einsum("bnst,sbnh->tbnh", self.p, dc))
        as_rows = lambda a: a.reshape(b * m.heads, s, s)  # noqa: E731
        core = module_backward(self.path + ".core_attention", "DotProductAttention", [T(dcontext, tp=(2, 1), seq=0, grad=False)],
                               [self.heads(dq, False), self.heads(dk, False), self.heads(dv, False)],
                               [api_backward(self.softmax, [self.scores(as_rows(dp), False)], [self.scores(as_rows(draw), False)])])
        mixed = np.concatenate([dq.reshape(s, b, m.kv, per_group, hn), dk[:, :, :, None], dv[:, :, :, None]], axis=3).reshape(s, b, -1)
        qkv_node, dx, qkv_grads = self.qkv.backward(mixed)
        node = module_backward(self.path, "SelfAttention", [hidden(dy, False), None], [hidden(dx, False)], [proj_node, core, qkv_node])
        return node, dx, [(self.proj.path, self.proj.cls, proj_grads), (self.qkv.path, self.qkv.cls, qkv_grads)]


class Mlp:
    """Dense MLP, or one expert (then `seq` is None: rows are tokens)."""

    def __init__(self, path, model, weights, seq=0, residual=hidden):
        self.path, self.model, self.seq, self.residual = path, model, seq, residual
        self.fc1 = Linear(path + ".linear_fc1", weights["fc1"], weights["fc1_bias"], blocks=2 if model.gated else 1, seq=seq, residual=residual)
        self.fc2 = Linear(path + ".linear_fc2", weights["fc2"], weights["fc2_bias"], column=False, hands_bias_on=True, seq=seq, residual=residual)

    def forward(self, x):
        fc1_node, a = self.fc1.forward(x)
        wide = lambda v, blocks=1, grad=True: T(v, tp=(v.ndim - 1, blocks), seq=self.seq, grad=grad)  # noqa: E731
        self.wide = wide
        if self.model.gated:
            gate, up = np.split(a, 2, axis=-1)
            sigmoid = 1 / (1 + np.exp(-gate))
            self.gate, self.up, self.act = gate, up, gate * sigmoid
            self.slope = sigmoid * (1 + gate * (1 - sigmoid))
            y = self.act * up
            self.apis = [api("Torch.chunk", [wide(a, 2), 2, -1], [wide(gate), wide(up)]), api("Functional.silu", [wide(gate)], [wide(self.act)]),
                         api("Tensor.mul", [wide(self.act), wide(up)], [wide(y)])]
        else:
            y, self.slope = gelu(a)
            self.apis = [api("Functional.gelu", [wide(a)], [wide(y)])]
        fc2_node, out = self.fc2.forward(y)
        node = module(self.path, "MLP", [self.residual(x)], [self.residual(out), self.fc2.bias], children=[fc1_node, *self.apis, fc2_node])
        return node, out + self.fc2.bias.full

    def backward(self, dy):
        wide = self.wide
        fc2_node, dact, fc2_grads = self.fc2.backward(dy)
        g = lambda v, blocks=1: wide(v, blocks, False)  # noqa: E731
        if self.model.gated:
            dsilu, dup = dact * self.up, dact * self.act
            dgate = dsilu * self.slope
            da = np.concatenate([dgate, dup], -1)
            middle = [api_backward(self.apis[2], [g(dact)], [g(dsilu), g(dup)]), api_backward(self.apis[1], [g(dsilu)], [g(dgate)]),
                      api_backward(self.apis[0], [g(dgate), g(dup)], [g(da, 2)])]
        else:
            da = dact * self.slope
            middle = [api_backward(self.apis[0], [g(dact)], [g(da)])]
        fc1_node, dx, fc1_grads = self.fc1.backward(da)
        node = module_backward(self.path, "MLP", [self.residual(dy, grad=False), None], [self.residual(dx, grad=False)], [fc2_node, *middle, fc1_node])
        return node, dx, [(self.fc2.path, self.fc2.cls, fc2_grads), (self.fc1.path, self.fc1.cls, fc1_grads)]


def tokens_layout(a, grad=True):
    return T(a, grad=grad)


class Expert:
    """One expert of a layer; its rows are tokens, of all replicas that share the experts."""

    PATH = "decoder.layers.{L}.mlp.experts.local_experts.{E}"

    def __init__(self, model, weights):
        self.mlp = Mlp(self.PATH, model, weights, seq=None, residual=tokens_layout)

    def run(self, x, dy):
        """Nodes forward and backward, outputs, gradient of the input, gradients of the parameters."""
        node, y = self.mlp.forward(x)
        back, dx, grads = self.mlp.backward(dy)
        return node, back, y, dx, grads


class Moe:
    """Experts with top-1 routing. The nodes of the experts are made when a rank is written, with the tokens of all replicas that share them (Job.experts)."""

    def __init__(self, path, model, layer):
        self.path, self.model, self.layer = path, model, layer
        self.router = T(layer["router"])

    def forward(self, x):
        self.x, self.shape = flat(x), x.shape
        logits = self.x @ self.layer["router"].T
        e = np.exp(logits - logits.max(-1, keepdims=True))
        self.p = e / e.sum(-1, keepdims=True)
        self.chosen = logits.argmax(-1)
        self.weight = np.take_along_axis(self.p, self.chosen[:, None], 1)
        self.y = np.zeros_like(self.x)
        for k, weights in enumerate(self.layer["mlp"]):
            rows = self.chosen == k
            self.y[rows] = Mlp("", self.model, weights, seq=None, residual=tokens_layout).forward(self.x[rows])[1]
        out = (self.y * self.weight).reshape(self.shape)
        product = api("Torch.matmul", [T(self.x), T(self.layer["router"].T)], [T(logits)])
        soft = self.soft = api("Torch.softmax", [T(logits), -1], [T(self.p)])
        router = module(self.path + ".router", "TopKRouter", [hidden(x)], [T(self.p)], params={"weight": self.router}, children=[product, soft])
        node = module(self.path, "MoELayer", [hidden(x)], [hidden(out), None], children=[router, Node("experts", self)])
        return node, out

    def backward(self, dy):
        rows = flat(dy)
        self.dy = rows * self.weight  # of the experts' outputs
        dp = np.zeros_like(self.p)
        np.put_along_axis(dp, self.chosen[:, None], (rows * self.y).sum(-1, keepdims=True), 1)
        dlogits = self.p * (dp - (dp * self.p).sum(-1, keepdims=True))
        dx = dlogits @ self.layer["router"]
        for k, weights in enumerate(self.layer["mlp"]):
            chosen = self.chosen == k
            mlp = Mlp("", self.model, weights, seq=None, residual=tokens_layout)
            mlp.forward(self.x[chosen])
            dx[chosen] += mlp.backward(self.dy[chosen])[1]
        dx = dx.reshape(self.shape)
        router = module_backward(self.path + ".router", "TopKRouter", [T(dp, grad=False)], [],
                                 [api_backward(self.soft, [T(dp, grad=False)], [T(dlogits, grad=False)])])
        node = module_backward(self.path, "MoELayer", [hidden(dy, False), None], [hidden(dx, False)], [Node("experts_backward", self), router])
        grads = [(self.path + ".router", "TopKRouter", {"weight": T(dlogits.T @ self.x, grad=False)})]
        return node, dx, grads


class Layer:
    def __init__(self, model, layer):
        prefix = "decoder.layers.{L}"
        self.prefix, self.model = prefix, model
        self.norm1, self.norm2 = Norm(prefix + ".input_layernorm", layer["input_layernorm"]), Norm(prefix + ".pre_mlp_layernorm", layer["pre_mlp_layernorm"])
        self.attention = Attention(prefix + ".self_attention", model, layer)
        self.mlp = Moe(prefix + ".mlp", model, layer) if model.experts else Mlp(prefix + ".mlp", model, layer["mlp"][0])

    def forward(self, x):
        n1, a = self.norm1.forward(x)
        n2, a = self.attention.forward(a)
        self.add1 = api("Tensor.add", [hidden(x), hidden(a)], [hidden(x + a)])
        y = x + a
        n3, c = self.norm2.forward(y)
        n4, c = self.mlp.forward(c)
        self.add2 = api("Tensor.add", [hidden(y), hidden(c)], [hidden(y + c)])
        node = module(self.prefix, "TransformerLayer", [], [hidden(y + c), None], kwargs={"hidden_states": hidden(x)}, children=[n1, n2, self.add1, n3, n4, self.add2])
        return node, y + c

    def backward(self, dy):
        n4, d, g4 = self.mlp.backward(dy)
        n3, d, g3 = self.norm2.backward(d)
        dy2 = dy + d
        n2, d, g2 = self.attention.backward(dy2)
        n1, d, g1 = self.norm1.backward(d)
        h = lambda a: hidden(a, False)  # noqa: E731
        node = module_backward(self.prefix, "TransformerLayer", [h(dy)], [h(dy2 + d)],
                               [api_backward(self.add2, [h(dy)], [h(dy), h(dy)]), n4, n3, api_backward(self.add1, [h(dy2)], [h(dy2), h(dy2)]), n2, n1])
        grads = g4 + [(self.norm2.path, "RMSNorm", g3)] + g2 + [(self.norm1.path, "RMSNorm", g1)]
        return node, dy2 + d, grads


class Pass:
    """One micro-batch through the un-split model."""

    def __init__(self, model, parameters, number):
        m, b, s = model, model.batch, model.sequence
        # A sample is the same whatever micro-batch it is in.
        samples = [np.random.default_rng([m.seed, 2, number * b + k]).integers(0, m.vocabulary, (2, s)) for k in range(b)]
        ids, labels = np.stack([a[0] for a in samples]), np.stack([a[1] for a in samples])
        integers = lambda a: T(a, seq=1, grad=False)  # noqa: E731
        self.ids, self.positions, self.labels = integers(ids), integers(np.tile(np.arange(s), (b, 1))), integers(labels)
        self.inputs, self.outputs, self.forward_nodes, self.backward_nodes, self.gradients = [], [], [], [], []
        self.d_inputs, self.d_outputs = [], []

        x = self.embed(m, parameters, ids)
        layers = [Layer(m, parameters.layers[n % len(parameters.layers)]) for n in range(m.distinct_layers or m.layers)]
        count = len(layers)
        for layer in layers:
            self.inputs.append(x)
            node, x = layer.forward(x)
            self.forward_nodes.append(node)
            self.outputs.append(x)
        self.final = Norm("decoder.final_layernorm", parameters.final)
        self.final_node, normed = self.final.forward(x)
        self.final_output = normed
        self.output = Linear("output_layer", parameters.output)
        self.output_node, logits = self.output.forward(normed)
        d = self.lose(m, logits, labels)
        self.output_back, d, self.output_grads = self.output.backward(d)
        self.final_input = d
        self.final_back, d, self.final_grads = self.final.backward(d)
        back = []
        for layer in reversed(layers):
            self.d_outputs.append(d)
            node, d, grads = layer.backward(d)
            back.append((node, grads))
            self.d_inputs.append(d)
        self.backward_nodes, self.gradients = [n for n, _ in reversed(back)], [g for _, g in reversed(back)]
        self.d_inputs.reverse()
        self.d_outputs.reverse()
        self.embed_backward(m, parameters, d, ids)
        self.layers = layers
        # Layers beyond the computed ones repeat them.
        pick = [n % count for n in range(m.layers)]
        for name in ("inputs", "outputs", "forward_nodes", "backward_nodes", "gradients", "d_inputs", "d_outputs", "layers"):
            setattr(self, name, [getattr(self, name)[k] for k in pick])

    def embed(self, m, parameters, ids):
        weight = T(parameters.embedding, tp=(0, 1))
        out = parameters.embedding[ids]

        def own(view):
            rows = len(parameters.embedding) // view.split.tp
            local = self.ids.local(view) - view.tp * rows
            inside = (local >= 0) & (local < rows)
            return np.where(inside, local, 0), inside

        def lookup(view):
            local, inside = own(view)
            return weight.local(view)[local] * inside[..., None]

        masked = T(grad=False, parts=lambda view: own(view)[0])
        partial = T(seq=1, parts=lookup)
        whole = T(out, seq=1)
        path = "embedding.word_embeddings"
        words = module(path, "VocabParallelEmbedding", [self.ids], [whole], params={"weight": weight}, children=[
            api("Functional.embedding", [masked, weight], [partial]),
            communication("all_reduce", "tp", lambda split: split.tp > 1, [T(seq=1, grad=False, parts=lookup)], [T(out, seq=1, grad=False)])])
        x = out.transpose(1, 0, 2)
        self.embedding_node = module("embedding", "LanguageModelEmbedding", [], [hidden(x)], kwargs={"input_ids": self.ids, "position_ids": self.positions},
                                     children=[words, api("Tensor.transpose", [whole, 0, 1], [T(x, seq=0)])])
        return x

    def embed_backward(self, m, parameters, d, ids):
        path = "embedding.word_embeddings"
        whole = T(d.transpose(1, 0, 2), seq=1, grad=False)
        words = module_backward(path, "VocabParallelEmbedding", [whole])
        self.embedding_back = module_backward("embedding", "LanguageModelEmbedding", [hidden(d, False)], [], [words])

        def gradient(view):
            g = np.zeros_like(parameters.embedding)
            rows = len(g) // view.split.tp
            np.add.at(g, self.ids.local(view), whole.local(view))
            return g[view.tp * rows:(view.tp + 1) * rows]

        self.embedding_grads = [(path, "VocabParallelEmbedding", {"weight": T(grad=False, parts=gradient)})]

    def lose(self, m, logits, labels):
        shifted = logits - logits.max(-1, keepdims=True)
        e = np.exp(shifted)
        total = e.sum(-1)
        wide = lambda a, grad=True: T(a, tp=(2, 1), seq=0, grad=grad)  # noqa: E731
        chosen = np.take_along_axis(shifted, labels.T[..., None], 2)[..., 0]
        self.loss = (np.log(total) - chosen).T
        exponentials = wide(e)
        self.loss_nodes = [
            api("Tensor.exp", [wide(shifted)], [exponentials]),
            communication("all_reduce", "tp", lambda split: split.tp > 1, [T(grad=False, parts=lambda view: exponentials.local(view).sum(-1))],
                          [T(total, seq=0, grad=False)]),
            api("Torch.log", [T(total, seq=0)], [T(np.log(total), seq=0)])]
        self.loss_t = T(self.loss, seq=1)
        count = labels.size
        summed = T(parts=lambda view: self.loss_t.local(view).sum())
        self.mean_loss = T(parts=lambda view: self.loss_t.local(view).sum() / count * view.split.cp)
        self.root_nodes = [api("Torch.sum", [self.loss_t], [summed]), api("Torch.div", [summed, count], [self.mean_loss])]
        self.d_loss = T(np.full_like(self.loss, 1 / count), seq=1, grad=False)
        onehot = np.zeros_like(logits)
        np.put_along_axis(onehot, labels.T[..., None], 1.0, 2)
        return (e / total[..., None] - onehot) / count


# ------------------------------------------------------------------------------------------------------------- writing
def text(value):
    return json.dumps(value)


class Leaves:
    """Leaf texts, each made once for the ranks that share it."""

    def __init__(self, form):
        self.form, self.cache = form, {}

    def array(self, tensor, view):
        return np.asarray(tensor.local(view))

    def made(self, array, grad):
        """JSON text of a tensor leaf without its closing brace and file name, and the array as recorded."""
        if array.dtype.kind in "iu":
            a, dtype = np.ascontiguousarray(array, np.int64), "torch.int64"
        else:
            a, dtype = np.array(array, np.float32, order="C"), "torch.float32"
        stats = [None] * 4
        if a.size:
            wide = a.astype(np.float64)
            stats = [a.max(), a.min(), wide.mean(), np.sqrt((wide * wide).sum())]
            stats = [int(v) if k < 2 and a.dtype.kind == "i" else float(np.float32(v)) for k, v in enumerate(stats)]
        leaf = {"type": "torch.Tensor", "dtype": dtype, "shape": list(a.shape), "Max": stats[0], "Min": stats[1], "Mean": stats[2], "Norm": stats[3],
                "requires_grad": bool(grad) and a.dtype.kind == "f"}
        if self.form.md5:
            leaf["md5"] = f"{zlib.crc32(a.tobytes()):08x}"
        return text(leaf)[:-1], a

    def leaf(self, tensor, view):
        key = (id(tensor), view.tp, view.cp)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = (*self.made(self.array(tensor, view), tensor.grad), tensor)  # keeps the tensor, so that its id stays its own
        return found[0], found[1]


def inject(kind, array, rank):
    a = np.array(array, np.float64)
    kind, _, amount = kind.partition(":")
    if kind in ("nan", "inf"):
        a.reshape(-1)[0] = float(kind)
    elif kind == "noise":
        a *= 1 + float(amount) * np.random.default_rng(rank).normal(size=a.shape)
    elif kind == "ulp":
        b = a.astype(np.float32).reshape(-1)
        b[-1] = np.nextafter(b[-1], np.float32(np.inf))
        a = b.reshape(a.shape)
    elif kind == "scale":
        a *= float(amount)
    else:
        raise ValueError(f"unknown injection {kind}")
    return a


class Rank:
    """Writes the dump of one rank."""

    def __init__(self, job, tp, cp, dp, pp):
        self.job, self.tp, self.cp, self.dp, self.pp = job, tp, cp, dp, pp
        self.view = View(job.split, tp, cp)
        self.number = job.rank(tp, cp, dp, pp)
        self.counters, self.construct, self.data, self.calls, self.files = {}, [], [], {}, []
        self.injections = [i for i in job.form.inject if not i[3] or self.number in i[3]]
        self.chunk = self.layer = self.expert = 0
        self.expert_grads = []
        self.micro = 0

    def group(self, axis):
        if axis == "ep":
            return [self.job.rank(self.tp, self.cp, d, self.pp) for d in self.job.expert_group(self.dp)]
        return [self.job.rank(**{"tp": self.tp, "cp": self.cp, "dp": self.dp, "pp": self.pp, axis: k}) for k in range(getattr(self.job.split, axis))]

    def group_leaf(self, axis):
        ranks = self.group(axis)
        return {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": f"{zlib.crc32(str(ranks).encode()):08x}"}

    def tensor(self, tensor, name, argument):
        leaf, array = self.job.leaves.leaf(tensor, self.view)
        for kind, node, part, _ in self.injections:
            if node in name and part in argument:
                leaf, array = self.job.leaves.made(inject(kind, array, self.number), tensor.grad)
        if self.job.form.task == "tensor":
            file = f"{name}.{argument}.pt"
            self.files.append((file, array))
            leaf += f', "data_name": {text(file)}'
        return leaf + "}"

    def value(self, value, name, argument):
        if isinstance(value, T):
            return self.tensor(value, name, argument)
        if value is None:
            return "null"
        if isinstance(value, int):
            return f'{{"type": "int", "value": {value}}}'
        return text(value)

    def values(self, values, name, argument):
        return "[" + ", ".join(self.value(v, name, f"{argument}.{k}") for k, v in enumerate(values)) + "]"

    def keywords(self, values, name, argument):
        return "{" + ", ".join(f"{text(k)}: {self.value(v, name, f'{argument}.{k}')}" for k, v in values.items()) + "}"

    def module_name(self, path, cls):
        path = "" if path is None else "module." + path.replace("{L}", str(self.layer)).replace("{E}", str(self.expert)) + ("." if path else "")
        return f"Module.{self.chunk}.{path}{cls}"

    def add(self, node, parent=None):
        form = self.job.form
        if node.kind in ("layer", "expert"):
            setattr(self, node.kind, node.name)
            for child in node.children:
                self.add(child, parent)
            return
        if node.kind.startswith("experts"):
            self.add_experts(node, parent)
            return
        if node.kind == "communication" and not node.when(self.job.split):
            return
        if node.kind not in ("module", "module_backward") and not form.api:
            return
        kwargs = dict(node.kwargs)
        if node.kind == "module":
            name = f"{self.module_name(*node.name)}.forward.{self.micro}"
        elif node.kind == "module_backward":
            name = f"{self.module_name(*node.name)}.backward.{self.micro}"
        elif node.kind == "api_backward":
            name = f"{node.name}.{self.calls[(id(node.forward), self.chunk, self.layer, self.micro)]}.backward"
        else:
            base = f"Distributed.{node.name[0]}" if node.kind == "communication" else node.name
            if node.kind == "communication":
                kwargs["group"] = self.group_leaf(node.name[1])
            count = self.counters[base] = self.counters.get(base, -1) + 1
            self.calls[(id(node), self.chunk, self.layer, self.micro)] = count
            name = f"{base}.{count}.forward"
        self.construct.append((name, parent))
        for child in node.children:
            self.add(child, name)
        if node.kind.endswith("backward"):
            entry = f'"input": {self.values(node.inputs, name, "input")}, "output": {self.values(node.outputs, name, "output")}'
        else:
            entry = (f'"input_args": {self.values(node.inputs, name, "input")}, "input_kwargs": {self.keywords(kwargs, name, "kwargs")}, '
                     f'"output": {self.values(node.outputs, name, "output")}')
            if node.kind == "module":
                entry += f', "parameters": {self.keywords(node.params, name, "parameters")}'
        self.data.append((name, entry))

    def add_experts(self, node, parent):
        """The experts of this rank, with the tokens of all replicas that share them."""
        job, moe = self.job, node.name
        group = job.expert_group(self.dp)
        shared = [job.moe_like(moe, self.dp, d) for d in group]
        own = range(*(k * job.model.experts // job.split.ep for k in (self.dp % job.split.ep, self.dp % job.split.ep + 1)))
        results = [job.expert(tuple(shared), k) for k in own]
        join = lambda index, grad: T(np.concatenate([r[index] for r in results]), grad=grad)  # noqa: E731
        exchange = lambda outputs: communication("all_to_all_single", "ep", lambda split: split.ep > 1, outputs, outputs)  # noqa: E731
        path = "decoder.layers.{L}.mlp.experts"
        if node.kind == "experts":
            self.add(exchange([join(5, True)]), parent)
            self.add(module(path, "SequentialMLP", [join(5, True)], [join(2, True)],
                            children=[Node("expert", k, children=[r[0]]) for k, r in enumerate(results)]), parent)
            self.add(exchange([join(2, True)]), parent)
        else:
            self.add(module_backward(path, "SequentialMLP", [join(6, False)], [join(3, False)],
                                     [Node("expert", k, children=[results[k][1]]) for k in reversed(range(len(results)))]), parent)
        self.expert_grads = [g for g in self.expert_grads if g[0] != (self.chunk, self.layer)]
        self.expert_grads += [((self.chunk, self.layer), k, *g) for k, r in enumerate(results) for g in r[4]]

    def transfer(self, tensor, op, to):
        """A p2p call; a receive is preceded by the buffer that it fills."""
        if not self.job.form.api:
            return
        if op == "irecv":
            empty = T(np.zeros_like(tensor.full), seq=0, sp=True)
            self.add(api("Torch.empty", [], [empty]))
        peer = self.job.rank(self.tp, self.cp, self.dp, to)
        group = f"{zlib.crc32(str(self.group('pp')).encode()):08x}"
        count = self.counters["p2p"] = self.counters.get("p2p", -1) + 1
        name = f"Distributed.batch_isend_irecv.{count}.forward"
        operation = (f'[[{{"class_type": "torch.distributed.P2POp", "tensor": {self.tensor(tensor, name, "output.0.0")}, "op": "{op}", "peer": {peer}, '
                     f'"tag": 0, "group_id": "{group}"}}]]')
        self.construct.append((name, None))
        self.data.append((name, f'"input_args": [], "input_kwargs": {{}}, "output": {operation}'))

    def forward(self, one, stage, first, count):
        """One chunk: stage number, first layer, number of layers."""
        stages = self.job.stages
        is_first, is_last = stage == 0, stage == stages - 1
        x = one.inputs[first]
        y = one.outputs[first + count - 1]
        ids = {"input_ids": one.ids, "position_ids": one.positions}
        layers = [Node("layer", k, children=[one.forward_nodes[first + k]]) for k in range(count)]
        block = module("decoder", "TransformerBlock", [], [hidden(one.final_output if is_last else y)], kwargs={"hidden_states": hidden(x) if is_first else None},
                       children=layers + ([one.final_node] if is_last else []))
        out = one.loss_t if is_last else hidden(y)
        kwargs = dict(ids) | ({"labels": one.labels} if is_last else {})
        model = Node("module", ("", "GPTModel"), [], [out], kwargs, {}, ([one.embedding_node] if is_first else []) + [block] +
                     ([one.output_node, *one.loss_nodes] if is_last else []))
        top = Node("module", (None, "Float16Module"), [one.ids, one.positions], [out], None, {}, [model])
        self.add(top)
        if is_last:
            for node in one.root_nodes:
                self.add(node)
            if self.job.split.dp > 1:
                self.add(communication("all_reduce", "dp", lambda split: True, [one.mean_loss], [self.job.loss_of_replicas(self, one)]))

    def backward(self, one, stage, first, count):
        stages = self.job.stages
        is_first, is_last = stage == 0, stage == stages - 1
        h = lambda a: hidden(a, False)  # noqa: E731
        layers = [Node("layer", k, children=[one.backward_nodes[first + k]]) for k in reversed(range(count))]
        d_out = h(one.final_input if is_last else one.d_outputs[first + count - 1])
        block = module_backward("decoder", "TransformerBlock", [d_out], [h(one.d_inputs[first])] if is_first else [], ([one.final_back] if is_last else []) + layers)
        into = one.d_loss if is_last else d_out
        model = Node("module_backward", ("", "GPTModel"), [into], [], None, None,
                     ([one.output_back] if is_last else []) + [block] + ([one.embedding_back] if is_first else []))
        self.add(Node("module_backward", (None, "Float16Module"), [into], [], None, None, [model]))

    def gradients(self, one, stage, first, count):
        is_first, is_last = stage == 0, stage == self.job.stages - 1
        found = [(0, one.output.path, one.output.cls, one.output_grads), (0, one.final.path, "RMSNorm", one.final_grads)] if is_last else []
        for k in reversed(range(count)):
            found += [(k, *g) for g in one.gradients[first + k]]
        if is_first:
            found += [(0, *g) for g in one.embedding_grads]
        found = [(layer, 0, path, cls, grads) for layer, path, cls, grads in found]
        found += [(layer, expert, *g) for (chunk, layer), expert, *g in self.expert_grads if chunk == self.chunk]
        for self.layer, self.expert, path, cls, grads in found:
            name = self.module_name(path, cls) + ".parameters_grad"
            entry = ", ".join(f'{text(k)}: [{self.tensor(g, name, k)}]' for k, g in grads.items())
            self.data.append((name, entry))

    def run(self):
        job, split = self.job, self.job.split
        stages = job.stages
        for micro, one in enumerate(job.passes_of(self.dp)):
            self.micro = micro
            mine = [(chunk, chunk * split.pp + self.pp) for chunk in range(split.vpp)]
            for self.chunk, stage in mine:
                first, count = job.first_layer[stage], job.layers[stage]
                if stage > 0:
                    self.transfer(hidden(one.inputs[first]), "irecv", (self.pp - 1) % split.pp)
                self.forward(one, stage, first, count)
                if stage < stages - 1:
                    self.transfer(hidden(one.outputs[first + count - 1]), "isend", (self.pp + 1) % split.pp)
            if not job.form.backward:
                continue
            for self.chunk, stage in reversed(mine):
                first, count = job.first_layer[stage], job.layers[stage]
                if stage < stages - 1:
                    self.transfer(hidden(one.d_outputs[first + count - 1], False), "irecv", (self.pp + 1) % split.pp)
                self.backward(one, stage, first, count)
                if stage > 0:
                    self.transfer(hidden(one.d_inputs[first], False), "isend", (self.pp - 1) % split.pp)
        if job.form.backward:
            for self.chunk, stage in reversed(mine):
                self.gradients(one, stage, job.first_layer[stage], job.layers[stage])

    def save(self, directory):
        directory.mkdir(parents=True)
        tensors = self.job.form.task == "tensor"
        with open(directory / "dump.json", "w", encoding="utf-8") as out:
            out.write(text({"task": self.job.form.task, "level": "mix" if self.job.form.api else "L0", "framework": "pytorch",
                            "dump_data_dir": str(directory / "dump_tensor_data") if tensors else None})[:-1])
            out.write(', "data": {\n' + ",\n".join(f"{text(name)}: {{{entry}}}" for name, entry in self.data) + "\n}}\n")
        with open(directory / "construct.json", "w", encoding="utf-8") as out:
            out.write("{\n" + ",\n".join(f"{text(name)}: {text(parent)}" for name, parent in self.construct) + "\n}\n")
        with open(directory / "stack.json", "w", encoding="utf-8") as out:
            out.write(text({"0": [[name for name, _ in self.construct],
                                  ["File /home/user/run/pretrain_gpt.py, line 210, in forward_step, \n output_tensor = model(tokens, position_ids, attention_mask)"]]}))
        if tensors:
            (directory / "dump_tensor_data").mkdir()
            for file, array in self.files:
                gen_dump.write_pt(str(directory / "dump_tensor_data" / file), array.shape, str(array.dtype), array)


class Job:
    """All ranks of one split."""

    def __init__(self, model, split, form):
        self.model, self.split, self.form = model, split, form
        self.stages = split.pp * split.vpp
        self.layers = split.layers_of(model)
        self.first_layer = [sum(self.layers[:k]) for k in range(self.stages)]
        assert model.micro_batches % split.dp == 0
        parameters = Parameters(model)
        self.passes = [Pass(model, parameters, k) for k in range(model.micro_batches)]
        self.leaves, self.expert_cache = Leaves(form), {}
        if model.experts:
            assert split.cp == 1 and not split.sequence_parallel and model.experts % split.ep == 0 and split.dp % split.ep == 0

    def rank(self, tp, cp, dp, pp):
        place, stride, number = {"tp": tp, "cp": cp, "dp": dp, "pp": pp}, 1, 0
        for axis in self.split.order.split("-"):
            if axis != "ep":
                number += place[axis] * stride
                stride *= getattr(self.split, axis)
        return number

    def expert_group(self, dp):
        """Replicas that share the experts: neighbours."""
        first = dp - dp % self.split.ep
        return list(range(first, first + self.split.ep))

    def moe_like(self, moe, dp, other):
        """The same layer of the same micro-batch number in another replica."""
        for mine, theirs in zip(self.passes_of(dp), self.passes_of(other)):
            for layer, like in zip(mine.layers, theirs.layers):
                if layer.mlp is moe:
                    return like.mlp
        raise KeyError

    def expert(self, shared, number):
        """Result of an expert for the tokens of several replicas, with its input and the gradient of its output."""
        key = (shared, number)
        if key not in self.expert_cache:
            x = np.concatenate([m.x[m.chosen == number] for m in shared])
            dy = np.concatenate([m.dy[m.chosen == number] for m in shared])
            self.expert_cache[key] = (*Expert(self.model, shared[0].layer["mlp"][number]).run(x, dy), x, dy)
        return self.expert_cache[key]

    def passes_of(self, dp):
        """Micro-batches of a replica: number m of replica d is number m·D + d of the job."""
        return self.passes[dp::self.split.dp]

    def loss_of_replicas(self, rank, one):
        micro = self.passes_of(rank.dp).index(one)
        whole = [self.passes_of(d)[micro].mean_loss for d in range(self.split.dp)]
        return T(grad=False, parts=lambda view: np.mean([t.local(view) for t in whole]))

    def write(self, directory):
        s = self.split
        for pp in range(s.pp):
            for dp in range(s.dp):
                for cp in range(s.cp):
                    for tp in range(s.tp):
                        rank = Rank(self, tp, cp, dp, pp)
                        rank.run()
                        rank.save(pathlib.Path(directory) / f"rank{rank.number}")


def write(directory, split=Split(), model=Model(), form=Form()):
    """Writes directory/rank0, rank1, ..."""
    Job(model, split, form).write(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    chosen = {}
    for kind in (Model, Split, Form):
        for field in dataclasses.fields(kind):
            flag = "--" + field.name.replace("_", "-")
            chosen[field.name] = kind
            if field.name == "inject":
                parser.add_argument(flag, nargs=4, action="append", default=[], metavar=("KIND", "NODE", "ARGUMENT", "RANKS"),
                                    help="nan, inf, noise:REL, ulp, scale:F; RANKS: 0,3 or all")
            elif field.name == "scale":
                parser.add_argument(flag, nargs=2, action="append", default=[], metavar=("PARAMETER", "FACTOR"))
            elif field.name == "stages":
                parser.add_argument(flag, type=int, nargs="+", default=[])
            elif isinstance(field.default, bool):
                parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
            else:
                parser.add_argument(flag, type=type(field.default), default=field.default)
    options = vars(parser.parse_args())
    options["inject"] = tuple((k, n, a, () if r == "all" else tuple(int(x) for x in r.split(","))) for k, n, a, r in options["inject"])
    options["scale"] = tuple((p, float(f)) for p, f in options["scale"])
    options["stages"] = tuple(options["stages"])
    of = lambda kind: kind(**{name: options[name] for name, k in chosen.items() if k is kind})  # noqa: E731
    write(options["out"], of(Split), of(Model), of(Form))


if __name__ == "__main__":
    main()
