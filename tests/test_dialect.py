"""The rewriting of what C++ lacks: whole texts."""

import re

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
        ('extern "C" __global__ void __launch_bounds__((N + 1) * 2, 4) k(int) { }', {"k": "(N + 1) * 2, 4"}),
        ('extern "C" __launch_bounds__(64) __global__ void k() { }', {"k": "64"}),
        ('extern "C" __global__ __attribute__((noinline)) void k() { }', {"k": "0"}),
        ('extern "C" { __global__ void a() { { } } int x; __global__ void b() { } }\n__global__ void c() { }',
         {"a": "0", "b": "0"}),
        ('extern "C" __global__ void __launch_bounds__(P<1, 2>::n << 8,1) k() { }', {"k": "P<1, 2>::n << 8,1"}),
        ('extern "C++" { extern "C" __global__ void k() { } }', {"k": "0"}),
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
         ("void f() { struct touchgate_alignment_of_a {}; typedef float touchgate_type_of_a[4][N + 1]; auto& a = "
          "::touchgate::shared<touchgate_type_of_a, alignof(touchgate_alignment_of_a)>([] {}); }")),
        ("void f() { extern __shared__ alignas(16) char d[]; g(d, x.d); }",
         "void f() { char* const d = ::touchgate::dynamic_shared<char>();     g(d, x.d); }"),
        ("extern __shared__ float d[]; float g() { return d[0] + x->d + y::d; }",
         " float g() { return (::touchgate::dynamic_shared<float>())[0] + x->d + y::d; }"),
        ("static __shared__ int s;",
         ("static thread_local int s; static const bool touchgate_place_of_s = ::touchgate::shared_by_all("
          "[]() -> void* { return __builtin_addressof(s); }, sizeof(s));")),
        ("void f() { __shared__ struct { int a; } s; }",
         ("void f() { struct touchgate_type_7 { int a; } ; struct touchgate_alignment_of_s {}; "
          "typedef touchgate_type_7 touchgate_type_of_s; "
          "auto& s = ::touchgate::shared<touchgate_type_of_s, alignof(touchgate_alignment_of_s)>([] {}); }")),
        ("void f() { __shared__ int s = 1; }", "void f() { thread_local int s = 1; }"),
        ("__noinline__ int f(); __attribute__((__noinline__)) int g();",
         "__attribute__((noinline)) int f(); __attribute__((__noinline__)) int g();"),
    ],
)  # fmt: skip
def test_rewriting(text, rewritten):
    assert " ".join(translated(text)[0].split()) == " ".join(rewritten.split())


def test_several_variables_of_one_declaration_keep_their_types():
    text, _ = translated("void f() { volatile __shared__ unsigned int a[2], *b, c; static __shared__ P<int, 2> d; }")
    for part in (
        "typedef volatile unsigned int touchgate_type_of_a[2];",
        "typedef volatile unsigned int * touchgate_type_of_b;",
        "typedef volatile unsigned int touchgate_type_of_c;",
        "typedef P<int, 2> touchgate_type_of_d;",
    ):
        assert part in text


def test_lines_stay_where_they_are():
    text = '# 7 "k.cu"\nvoid f() {\n  __shared__ int a[3],\n      b;\n#pragma unroll\n  for (;;) a[0] = b;\n}\n'
    rewritten, _ = translated(text)
    assert len(rewritten.split("\n")) == len(text.split("\n"))
    assert rewritten.split("\n")[4:] == text.split("\n")[4:]


@pytest.mark.parametrize(
    ("declaration", "typedefs"),
    [
        ("float t[1 << 4], u[N>>1][A==B];", ["float T_t[1 << 4]", "float T_u[N>>1][A==B]"]),
        ("P<int, (8 >> 1)> a[X::n], b;", ["P<int, (8 >> 1)> T_a[X::n]", "P<int, (8 >> 1)> T_b"]),
        ("P<P<1, 2>> a, b[p->n && q || !r];", ["P<P<1, 2>> T_a", "P<P<1, 2>> T_b[p->n && q || !r]"]),
        ("P<1 << 4, 2> a, b[x <= y ? 1 : 2];", ["P<1 << 4, 2> T_a", "P<1 << 4, 2> T_b[x <= y ? 1 : 2]"]),
        ("::std::pair<a <= b, c >= d> *a[3], b;", ["::std::pair<a <= b, c >= d> * T_a[3]", "::std::pair<a <= b, c >= d> T_b"]),
        ("float\nx\n[1\n<<\n4];", ["float T_x[1 << 4]"]),
    ],
)
def test_operators_keep_their_spelling(declaration, typedefs):
    text, _ = translated(f"void f() {{ __shared__ {declaration} }}")
    found = re.findall(r"typedef ([^;]*);", text.replace("touchgate_type_of_", "T_"))
    assert found == typedefs


def test_shared_variables_outside_of_functions_are_all_told():
    text, _ = translated(
        "__shared__ __attribute__((x)) alignas(16) P<1, 2> a[1 << 4], *b;\nnamespace n { __shared__ struct S { int x; } c; }"
    )
    assert text.startswith("alignas(16) thread_local __attribute__((x)) ")
    for name in "abc":
        assert f"return __builtin_addressof({name}); }}, sizeof({name}));" in text
    assert text.count("shared_by_all") == 3
