import { canonicalize, type JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { shownValues } from '@svc/plugin-enforcement/internal/escalation/shown-values'
import { CallScope, compileExpression, Failure } from '@svc/plugin-rules/internal/engine/index'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../support/property-runs.js'
import { variables } from '../../rules/rig.js'

const sources = ['args.amount', 'args.customer.id', 'args.lines[0]', 'args.lines[1].id']

const forms = (name: string) => [name, name.toUpperCase(), `${name}.`, ` ${name}`, `\u200b${name}`, `ｉd`]
const names = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('amount', 'customer', 'id', 'lines') },
  fc.constantFrom('amount', 'customer', 'id', 'lines').chain((name) => fc.constantFrom(...forms(name))),
  fc.constantFrom('customer.id', 'Customer．ID', 'customer.\u200bid', 'lines.0', 'lines.1.id', 'a1, amount'),
  fc.constantFrom('a1', 'a2', 'a3', 'args', '__proto__'),
)
const scalars = fc.oneof(fc.integer(), fc.constantFrom('x', 'trusted', ''), fc.boolean(), fc.constant(null))
const objects = (inner: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonValue> =>
  fc.array(fc.tuple(names, inner), { maxLength: 5 }).map(Object.fromEntries)
const items = fc.array(fc.oneof(scalars, objects(scalars)), { maxLength: 3 })
const inputs = objects(fc.oneof({ weight: 3, arbitrary: scalars }, objects(scalars), items))

/** The paths of all values, also of lists and objects, as they are written. */
function pathsIn(value: JsonValue): string[][] {
  if (typeof value !== 'object' || value === null) return [[]]
  const inner = Object.entries(value).flatMap(([name, one]) => pathsIn(one).map((path) => [name, ...path]))
  return [[], ...inner]
}

function ruleOf(source: string) {
  const expression = compileExpression(source, { vars: {} })
  const path = expression.reads[0]?.names ?? expect.fail('no path')
  return { expression, path, name: path.slice(1).join('.') }
}

const shownOf = (args: JsonValue, ...rules: readonly ReturnType<typeof ruleOf>[]) =>
  shownValues(
    canonicalize(args),
    rules.map(({ path }) => path),
  )

describe('the short values of a call that waits', () => {
  const isShort = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)

  it('begin with what the rule reads, by whatever name the caller writes it', () => {
    const seen = { value: 0, none: 0 }
    const property = fc.property(fc.constantFrom(...sources).map(ruleOf), inputs, (rule, args) => {
      const value = rule.expression.evaluate(variables(args), new CallScope())
      const shown = shownOf(args, rule)
      if (value instanceof Failure) {
        seen.none++
        // What looks like the rule's path is a value at such a path.
        const written = pathsIn(args)
        const fold = (path: readonly unknown[]) => path.map((name) => foldName(String(name))).join('.')
        for (const { name } of shown.filter((one) => foldName(one.name) === foldName(rule.name)))
          expect(
            written.some((path) => path.join('.') === name && fold(path) === fold(rule.path.slice(1))),
            name,
          ).to.equal(true)
        return
      }
      if (!isShort(value)) return
      seen.value++
      expect(shown[0]).to.deep.equal({ name: rule.name, value: String(value) })
    })
    fc.assert(property, { seed: 2811, numRuns: propertyRuns(3000) })
    expect(Math.min(seen.value, seen.none)).to.be.greaterThan(propertyRuns(100))
  })

  it('have both members that could be read as one, as they are written', () => {
    const amount = ruleOf('args.amount')
    const args = { A1: 1, A2: 2, Amount: 90_000, amount: 5, AMOUNT: 7 }
    expect(shownOf(args, amount)).to.deep.equal([
      { name: 'AMOUNT', value: '7' },
      { name: 'Amount', value: '90000' },
      { name: 'A1', value: '1' },
    ])
    expect(shownOf({ customer: { ID: 1 }, Customer: { id: 2 } }, ruleOf('args.customer.id'))).to.deep.equal([
      { name: 'Customer.id', value: '2' },
      { name: 'customer.ID', value: '1' },
    ])
  })

  it('name a list, an object and null in the place of what the rule reads, and each path once', () => {
    const rules = ['args.amount', 'args.Amount', 'args.to', 'args.note'].map(ruleOf)
    expect(
      shownOf({ amount: [90_000], amount_eur: 5, to: { iban: 'x' }, note: null }, ...rules),
    ).to.deep.equal([
      { name: 'amount', value: '[…]' },
      { name: 'to', value: '{…}' },
      { name: 'note', value: 'null' },
    ])
  })

  it('stay different where they are cut', () => {
    const name = (middle: string, end: string) => `${'member_'.repeat(4)}${middle}${'_of_it'.repeat(4)}${end}`
    const names = [name('a', 'y'), name('b', 'y'), name('a', 'z')]
    const shown = shownOf(
      Object.fromEntries(names.map((one) => [one, one])),
      ...names.map((one) => ruleOf(`args.${one}`)),
    )
    for (const texts of [shown.map((one) => one.name), shown.map((one) => one.value)]) {
      expect(new Set(texts).size).to.equal(3)
      for (const text of texts) expect(text).to.match(/^.{20}…[0-9a-f]{8}….{10}$/)
    }
  })
})
