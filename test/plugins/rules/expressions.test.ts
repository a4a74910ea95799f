import { JsonNumber } from '@svc/core/json'
import { compileExpression, ExpressionError } from '@svc/plugin-rules/internal/engine/index'
import { expect } from 'chai'
import { valueFor, vars } from './rig.js'

const args = {
  id: new JsonNumber('9007199254740993'),
  beyond: new JsonNumber('18446744073709551615'),
  fine: new JsonNumber('0.10000000000000001'),
  one: new JsonNumber('1.0'),
  amount: 50,
  n: 7,
  half: 0.5,
  s: 'hello',
  list: [{ a: 1 }, { a: 2, b: null }],
  big: 2 ** 53,
  huge: 9007199254740994,
  Currency: 'EUR',
  nothing: null,
  inner: { 'a b': [1, 'x'] },
  on: true,
}

/** Condition, and its value for these arguments. */
const values: readonly (readonly [string, unknown])[] = [
  ['args.amount <= vars.max', true],
  ['args.amount * 2 == 100', true],
  ['2 * args.amount + 1 > 100.5', true],
  ['args.amount - 1 == 49 && 1 - args.amount == -49', true],
  ['args.n / 2 == 3.5 && 7 / 2 == 3', true],
  ['args.n % 2 == 1 && 9 % args.n == 2 && args.n % args.amount == 7', true],
  ['args.half % 2 == 0', 'error: % is defined for whole numbers'],
  ['args.n / 0 > 1', 'error: division by zero'],
  ['args.n % 0 == 1', 'error: division by zero'],
  // 2^53 + 1 is no double, and an int all the same.
  ['args.big < 9007199254740993 && args.big != 9007199254740993', true],
  ['args.huge > 9007199254740993 && args.huge == 9007199254740994', true],
  ['args.big + 1 > 0', 'error: the result is not exact'],
  ['args.id == 9007199254740993 && args.id > 9007199254740992 && args.id < 9007199254740994', true],
  ['args.id == 9007199254740992 || args.id in [9007199254740994]', false],
  ['args.id + 1 == 9007199254740994 && -args.id == -9007199254740993', true],
  ['args.beyond > 9223372036854775807 && args.beyond < 1e20 && args.beyond != 18446744073709552000.0', true],
  ['args.beyond + 1 > 0', 'error: a number of the call is not exact as a number'],
  ['args.fine > 0.1 && args.fine < 0.2 && args.fine != 0.1', true],
  ['args.fine * 2 > 0.2', 'error: a number of the call is not exact as a number'],
  ['args.one == 1 && args.one + 1 == 2 && int(args.one) == 1 && string(args.id) == "9007199254740993"', true],
  ['args.big * args.big > 0', 'error: the result is not exact'],
  ['args.n + 9007199254740993 > 0', 'error: 9007199254740993 is not exact as a number'],
  ['9223372036854775807 + 1 > 0', 'error: the result is out of range'],
  ['double("9007199254740993") > 1', 'error: this string is not a number that a double represents'],
  ['double("1e400") > 1', 'error: this string is not a number that a double represents'],
  ['double(" 5") > 1', 'error: this string is not a number that a double represents'],
  ['int("0x10") > 1', 'error: this string is not an int'],
  ['double("100.50") == 100.5 && int("12") == 12 && int(7.9) == 7', true],
  ['args.missing > 1', 'error: args.missing is absent'],
  ['args.missing > 1 || true', true],
  ['args.missing > 1 && false', false],
  ['true || args.missing', true],
  ['args.missing.deeper == 1', 'error: args.missing is absent'],
  ['has(args.missing) || has(args.nothing)', true],
  ['has(args.missing.deeper)', 'error: args.missing is absent'],
  ['has(args.list.a)', 'error: a list has no members'],
  ['has(args.s.force)', 'error: a string has no members'],
  ['has(args.nothing.force)', 'error: a null_type has no members'],
  ['args.nothing == null && args.s != null', true],
  ['args.nothing > 1', 'error: > is not defined for null_type and int'],
  ['args.s == 5', 'error: == is not defined for string and int'],
  ['args.s > 5', 'error: > is not defined for string and int'],
  ['args.s in [5, 6]', 'error: == is not defined for string and int'],
  ['5 in [args.s, args.amount / 10] && !(args.nothing in [5]) && !(args.s in [])', true],
  ['args.inner["a b"] == [1, 2]', 'error: == is not defined for string and int'],
  ['args.on && args.amount', 'error: a bool is expected, not a double'],
  ['!args.s', 'error: a bool is expected, not a string'],
  ['args.amount', 50],
  ['args.currency == "EUR" && args.CURRENCY == "EUR"', true],
  ['args.inner["a b"][1] == "x" && args.inner["A B"][0] == 1', true],
  ['args.list[0].a == 1 && args.list[args.n - 6].a == 2', true],
  ['args.list[5].a == 1', 'error: the list has no item 5'],
  ['args.list.all(x, x.a > 0) && args.list.exists(x, x.a == 2)', true],
  ['args.list.all(x, x.b == null)', 'error: x.b is absent'],
  ['args.list.exists(x, x.b == null)', true],
  ['args.list.exists_one(x, x.a == 2) && args.list.filter(x, x.a > 1).size() == 1', true],
  ['args.list.map(x, x.a * 2) == [2, 4] && size(args.list.map(x, x.a > 1, x.a)) == 1', true],
  [
    'args.list.all(x, [1, 2].exists(y, y == x.a)) && args.list.all(x, vars.numbers.exists(y, y == x.a))',
    true,
  ],
  ['args.inner.all(name, name == "a b")', true],
  ['args.s.all(x, true)', 'error: a list is expected, not a string'],
  ['"a b" in args.inner && !("amounts" in args)', true],
  ['args.s.matches("^h.*o$") && args.s.matches("ell") && !args.s.matches("^ell")', true],
  ['args.s.startsWith("he") && args.s.endsWith("lo") && args.s.contains("ll")', true],
  ['args.amount.startsWith("5")', 'error: a string is expected, not a double'],
  ['size(args.s) == 5 && args.s.size() == 5 && size("é😀") == 2 && size(args.list) == 2', true],
  ['args.s.upperAscii() == "HELLO" && "ÄB".lowerAscii() == "Äb" && " a ".trim() == "a"', true],
  [
    'type(args.amount) == double && type(args.s) == string && type(1) == int && type(args.list) == list',
    true,
  ],
  ['string(args.n) == "7" && string(args.on) == "true"', true],
  ['vars.names == ["a", "b"] && "a" in vars.names && 2 in vars.numbers && vars.word == "x" && vars.on', true],
  [
    'call.time.getHours() == 8 && call.time.getHours("Europe/Berlin") == 9 && call.time.getDayOfWeek() == 1',
    true,
  ],
  [
    'call.time < timestamp("2026-11-23T08:30:01Z") && call.time > timestamp("2026-11-23T09:29:59+01:00")',
    true,
  ],
  ['timestamp("2026-02-28T23:59:59.1230000Z") < call.time', true],
  ...['2026-02-30T00:00:00Z', '2026-02-28T24:00:00Z', '2026-02-28T00:00:00.0001Z'].map(
    (time) => [`timestamp("${time}") < call.time`, 'error: not a time as in 2026-11-23T09:00:00Z'] as const,
  ),
  ['args.inner[args.s] == 1', 'error: a member with a computed name is absent'],
  ['args.list[args.amount] == 1', 'error: the list has no such item'],
  ['args.on[args.s] == 1', 'error: a bool has no members'],
  ['timestamp("tomorrow") > call.time', 'error: not a time as in 2026-11-23T09:00:00Z'],
  ['"support" in caller.roles && caller.sub == "u-1" && tool.side_effecting && call.protocol == "mcp"', true],
  ['claimed.agent == "a"', 'error: claimed.agent is absent'],
  ['args.amount > 10 ? args.on : args.missing', true],
]

describe('an expression of a rule', () => {
  for (const [source, expected] of values) {
    it(`${source} is ${expected}`, () => expect(valueFor(source, args)).to.equal(expected))
  }

  it('has no value if two members could be read as one', () => {
    const alike = { amount: 1, AMOUNT: 500 }
    const error = 'error: two members could be read as "amount"'
    for (const source of ['args.amount < 5', 'has(args.amount)', 'args["amount"] < 5', '"amount" in args']) {
      expect(valueFor(source, alike), source).to.equal(error)
    }
  })

  it('reads members with the names of prototypes as any other', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype']) {
      expect(valueFor(`args.${name} == 1`), name).to.equal(`error: args.${name} is absent`)
      expect(valueFor(`has(args.${name}) || "${name}" in args`), name).to.equal(false)
      expect(valueFor(`args.${name} == 1`, JSON.parse(`{"${name}":1}`)), name).to.equal(true)
    }
  })
})

const accepted = 'accepted are args, params, caller, claimed, tool, call, vars'

/** Text, the character of its mistake, and the message. */
const mistakes: readonly (readonly [string, number, string])[] = [
  ['args.amount >', 13, 'unexpected token: EOF'],
  ['arg.amount > 1', 0, `unknown variable: arg; did you mean args? ${accepted}`],
  ['callr.tenant == "x"', 0, `unknown variable: callr; did you mean caller? ${accepted}`],
  ['arguments.amount > 1', 0, `unknown variable: arguments; did you mean args? ${accepted}`],
  ['targets.billing.url == "x"', 0, `unknown variable: targets; did you mean tool.server? ${accepted}`],
  ['zebra > 1', 0, `unknown variable: zebra; ${accepted}`],
  ['*', 0, 'unexpected token: MULTIPLY; a condition that is always true is true'],
  ['args.amount = 5', 12, 'unexpected character: =; values are compared by =='],
  ['args.a == "=" and args.b', 14, "unexpected character: 'd'; write && for and, || for or, ! for not"],
  ['args.name.length() > 3', 0, "found no matching overload for 'dyn.length()'; a length is size(value)"],
  ['args.amount > 1 && caller.rolls == 1', 26, 'no such key: rolls'],
  ['vars.maximum > 1', 5, 'no such key: maximum'],
  ['args.n > 1 && vars.word > 1', 14, 'no such overload: string > int'],
  ['"x" in vars.max', 0, 'no such overload: string in double'],
  ['size(caller.roles)', 0, 'the condition is a int; accepted is a bool'],
  [
    'args.list.all(x, args.list.all(y, y == x))',
    17,
    'a macro within a macro goes over a literal list or over vars',
  ],
  ['args.list.all(args, true)', 14, '"args" is a variable already'],
  ['args.s.matches(args.p)', 15, 'the pattern of matches is a literal'],
  [
    'args.s.matches("(?=a)")',
    15,
    'not a pattern of RE2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`',
  ],
  [
    'args.s.matches("(a{1,30}){1,30}")',
    15,
    'the pattern is too large; accepted are shorter patterns and smaller repetitions',
  ],
  ['call.time.getHours("Mars/Base") > 1', 19, '"Mars/Base" is not a time zone'],
  ['args.n > 9007199254740993.0', 9, 'a double does not represent this number exactly'],
  ['args.n == 2u', 10, 'bytes and unsigned numbers are not supported'],
  ['cel.bind(x, 1, x == 1)', 0, 'cel is not supported in conditions'],
  ['{"a": 1}.a == 1', 0, 'this is not supported in conditions'],
  ['has(caller.nope)', 4, 'caller has no nope; known: sub, tenant, client, roles, scopes'],
  ['args.s.split(",").size() > 1', 0, 'the method split is not supported'],
  ['duration("1h") == duration("2h")', 0, 'the function duration is not supported'],
  [`args.n > ${'1 + '.repeat(500)}1`, 0, 'too long; accepted are at most 2000 characters'],
]

describe('a mistake in an expression', () => {
  for (const [source, at, message] of mistakes) {
    it(`is found at character ${at} of ${source.slice(0, 40)}`, () => {
      try {
        compileExpression(source, { vars })
        expect.fail('it was accepted')
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        expect([error.at, error.message]).to.deep.equal([at, message])
      }
    })
  }

  it('refuses more nodes, and deeper ones, than the limits', () => {
    const deep = `${'!('.repeat(30)}true${')'.repeat(30)}`
    const many = Array.from({ length: 120 }, () => 'true').join(' && ')
    for (const source of [deep, many])
      expect(() => compileExpression(source, { vars })).to.throw(ExpressionError)
  })
})
