import type { JsonValue } from '@svc/core/json'
import {
  CallScope,
  compileExpression,
  type Expression,
  ExpressionError,
} from '@svc/plugin-rules/internal/engine/index'
import { expect } from 'chai'
import { propertyRuns } from '../../support/property-runs.js'
import { ExpressionGenerator, randomFrom } from './expression-generator.js'
import { variables, vars } from './rig.js'

const seed = Number(process.env['SVC_RULES_SEED'] ?? 20_261_123)

const MAX_MS = 5

/** Evaluations that are tried: other processes take time, and the first ones run before their code is compiled. */
const TRIES = 20

/** The processor time of an evaluation, in milliseconds: of the first that is short enough, else the least of all. */
function timeOf(expression: Expression, args: JsonValue): number {
  let least = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < TRIES && least >= MAX_MS; tries++) {
    const before = process.cpuUsage()
    const started = performance.now()
    expression.evaluate(variables(args), new CallScope())
    const elapsed = performance.now() - started
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, elapsed, (user + system) / 1000)
  }
  return least
}

const text = (length: number, part = 'a') => part.repeat(Math.ceil(length / part.length)).slice(0, length)
const objects = (count: number, item: JsonValue): JsonValue[] => Array.from({ length: count }, () => item)
const members = (count: number): JsonValue =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, n]))
const many = (join: string, part: string, count: number) =>
  Array.from({ length: count }, () => part).join(join)

/** Conditions and arguments that were slow in some evaluator, each near the limits. */
const worst: readonly (readonly [string, string, JsonValue])[] = [
  ['a macro over long lists', `args.list.all(x, ${many(' && ', 'x >= 0', 30)})`, { list: objects(1000, 1) }],
  ['a failure for each element', 'args.list.all(x, x.missing > 1)', { list: objects(1000, { a: 1 }) }],
  [
    'failures within failures',
    `args.list.all(x, ${many(' || ', 'x.m > 1', 25)})`,
    { list: objects(1000, {}) },
  ],
  [
    'a list in each element of a list',
    'args.list.all(x, x in args.list)',
    { list: Array.from({ length: 1000 }, (_, n) => n) },
  ],
  [
    'whole lists compared for each element',
    'args.list.all(x, args.list == args.list)',
    { list: objects(1000, 'aaaa') },
  ],
  ['a search in a large text', 'args.s.contains(args.part)', { s: text(4_000_000), part: `${text(200)}b` }],
  [
    'many searches in a text',
    many(' || ', 'args.s.contains(args.part)', 25),
    { s: text(60_000), part: text(250, 'ab') },
  ],
  ['a regular expression that backtracks', 'args.s.matches("^(a+)+$")', { s: `${text(30_000)}b` }],
  [
    'a regular expression with many states',
    'args.s.matches("(a|b)*a(a|b){12}$")',
    { s: text(4000, 'abbab') },
  ],
  [
    'regular expressions for each element',
    'args.list.all(x, x.matches("(a|aa)+b"))',
    { list: objects(1000, text(200)) },
  ],
  [
    'names in Unicode',
    many(' || ', 'args.é', 1).replace('.é', '["é"] == 1'),
    Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`ｅ́${n}`, n])),
  ],
  ['long names', 'args.a == 1', { [text(1_000_000, 'ş̌')]: 1, [text(60_000, 'Ａ')]: 2 }],
  [
    'objects with many members',
    many(' || ', 'args.list[0].a == args.list[1].b', 8),
    { list: objects(3, Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`n${n}`, n]))) },
  ],
  ['texts that grow', `size(${many(' + ', 'args.s', 60)}) > 1`, { s: text(100_000) }],
  ['lists that grow', `size(${many(' + ', 'args.list', 60)}) > 1`, { list: objects(50_000, 1) }],
  [
    'a macro that creates lists',
    'args.list.map(x, args.list).size() > 1 && args.list.map(x, args.list + args.list).size() > 1',
    { list: objects(1000, 1) },
  ],
  [
    'the parts of a time',
    `args.list.all(x, call.time.getHours("Europe/Berlin") < 24)`,
    { list: objects(1000, 1) },
  ],
  [
    'many members, compared with each element',
    'args.list.exists(x, x == args.m)',
    { m: members(10_000), list: objects(1000, {}) },
  ],
  ['many members, counted again and again', many(' || ', 'size(args.m) == 1', 30), { m: members(10_000) }],
  ['many members, too many for a macro', many(' || ', 'args.m.all(x, true)', 25), { m: members(10_000) }],
  [
    'deep values',
    'args.a == args.b',
    (() => {
      let deep: JsonValue = 1
      for (let at = 0; at < 500; at++) deep = { deep }
      return { a: deep, b: JSON.parse(JSON.stringify(deep)) }
    })(),
  ],
]

describe('the cost of a condition', () => {
  for (const [what, source, args] of worst) {
    it(`is at most ${MAX_MS} ms for ${what}`, () => {
      expect(timeOf(compileExpression(source, { vars }), args)).to.be.lessThan(MAX_MS)
    })
  }

  it('of listing the members of an object is paid once in a call, whatever the number of its rules', () => {
    const args = { m: members(10_000) }
    const expressions = ['size(args.m) == 1', 'args.m == args.m', 'args.m.all(x, true)', 'has(args.m.a)'].map(
      (source) => compileExpression(source, { vars }),
    )
    let listed = 0
    const counted = new Proxy(args.m as object, {
      ownKeys(target) {
        listed++
        return Reflect.ownKeys(target)
      },
    })
    const scope = new CallScope()
    for (const expression of expressions) expression.evaluate(variables({ ...args, m: counted }), scope)
    expect(listed).to.equal(1)
  })

  it(`is at most ${MAX_MS} ms for random conditions and arguments as large as a request (seed ${seed})`, () => {
    const generator = new ExpressionGenerator(randomFrom(seed))
    const shapes = Array.from({ length: 12 }, () => generator.arguments(true))
    let judged = 0
    for (let tries = 0; tries < propertyRuns(500); tries++) {
      const source = generator.condition(6)
      let expression: Expression
      try {
        expression = compileExpression(source, { vars })
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        continue
      }
      judged++
      for (const [at, shape] of shapes.entries()) {
        const ms = timeOf(expression, shape)
        if (ms >= MAX_MS) expect.fail(`${ms} ms, arguments ${at}: ${source}`)
      }
    }
    expect(judged).to.be.greaterThan(propertyRuns(60))
  })
})
