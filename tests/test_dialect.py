"""The rewriting of what C++ lacks: whole texts."""

import pytest

from touchgate.devices import dialect


def translated(text):
    """The user's part, and the kernels."""
    result = dialect.translate(f"struct {dialect.BEGINS};\n{text}")
    body = result.text.split("\n", 1)[1]
    return body[: body.index('\n# 1 "<touchgate>"')], dict(result.kernels)


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        ('extern "C" __global__ void k(int* p) { }', {"k": "0"}),
        ('extern "C" void __global__ k(int* p) { }', {"k": "0"}),
        ('extern "C" __global__ void __launch_bounds__(128) k(int) { }', {"k": "128"}),
        ('extern "C" __global__ void __launch_bounds__((N + 1) * 2, 4) k(int) { }', {"k": "( N + 1 ) * 2"}),
        ('extern "C" __launch_bounds__(64) __global__ void k() { }', {"k": "64"}),
        ('extern "C" __global__ __attribute__((noinline)) void k() { }', {"k": "0"}),
        ('extern "C" { __global__ void a() { { } } int x; __global__ void b() { } }\n__global__ void c() { }',
         {"a": "0", "b": "0"}),
        ('const char* s = "extern \\"C\\" __global__ void k() {}";', {}),
        ('const char* s = R"(extern "C" __global__ void k() {})";', {}),
        ('extern "C" __global__ void k();\nextern "C" __global__ void __launch_bounds__(8) k() { }', {"k": "8"}),
        ("template <class T> __global__ void k(T) { }", {}),
    ],
)  # fmt: skip
def test_kernels(text, kernels):
    assert translated(text)[1] == kernels


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("void f() { __shared__ float a[4][N + 1]; }",
         ("void f() { struct touchgate_alignment_of_a {}; auto& a = "
          "::touchgate::shared<float [ 4 ] [ N + 1 ], alignof(touchgate_alignment_of_a)>([] {}); }")),
        ("void f() { extern __shared__ alignas(16) char d[]; g(d, x.d); }",
         "void f() { char* const d = ::touchgate::dynamic_shared<char>();     g(d, x.d); }"),
        ("extern __shared__ float d[]; float g() { return d[0] + x->d + y::d; }",
         " float g() { return (::touchgate::dynamic_shared<float>())[0] + x->d + y::d; }"),
        ("__shared__ int s;", "thread_local int s;"),
        ("void f() { __shared__ struct { int a; } s; }", "void f() { thread_local struct { int a; } s; }"),
        ("__noinline__ int f(); __attribute__((__noinline__)) int g();",
         "__attribute__((noinline)) int f(); __attribute__((__noinline__)) int g();"),
    ],
)  # fmt: skip
def test_rewriting(text, rewritten):
    assert " ".join(translated(text)[0].split()) == " ".join(rewritten.split())


def test_several_variables_of_one_declaration_keep_their_types():
    text, _ = translated("void f() { volatile __shared__ unsigned int a[2], *b, c; static __shared__ P<int, 2> d; }")
    for part in (
        "auto& a = ::touchgate::shared<volatile unsigned int [ 2 ], ",
        "auto& b = ::touchgate::shared<volatile unsigned int * , ",
        "auto& c = ::touchgate::shared<volatile unsigned int , ",
        "auto& d = ::touchgate::shared<P < int , 2 > , ",
    ):
        assert part in text


def test_lines_stay_where_they_are():
    text = '# 7 "k.cu"\nvoid f() {\n  __shared__ int a[3],\n      b;\n#pragma unroll\n  for (;;) a[0] = b;\n}\n'
    rewritten, _ = translated(text)
    assert len(rewritten.split("\n")) == len(text.split("\n"))
    assert rewritten.split("\n")[4:] == text.split("\n")[4:]
