import { isUnrecorded, type KeptValues } from '@svc/core'
import {
  CallScope,
  compileExpression,
  compilePath,
  ExpressionError,
  Failure,
  type ReadPath,
  recordedInput,
} from '@svc/plugin-rules/internal/engine/index'
import { keptValues } from '@svc/plugin-rules/internal/stage'
import { keptNames } from '@svc/plugin-rules/internal/variables'
import { expect } from 'chai'
import { propertyRuns } from '../../support/property-runs.js'
import { ExpressionGenerator, randomFrom } from './expression-generator.js'
import { variables, vars } from './rig.js'

type Expression = ReturnType<typeof compileExpression>

const seed = Number(process.env['SVC_PROPERTY_SEED'] ?? 26)

/** The value for a recorded call: `missing: what` if it depends on what was not kept. */
function recordedValue(expression: Expression, kept: KeptValues | undefined): unknown {
  const { args, params, scope } = recordedInput(kept, keptNames)
  const value = expression.evaluate(variables(args, { params }), scope)
  if (isUnrecorded(value)) return `missing: ${value.facts.join(', ')}`
  return value instanceof Failure ? 'error' : value
}

/** Condition, what was kept, and its value. */
const rows: readonly (readonly [string, KeptValues | undefined, unknown])[] = [
  ['args.amount <= 100', undefined, 'missing: args.amount'],
  ['args.amount <= 100', { values: { 'args.amount': 50 } }, true],
  ['args.Amount <= 100', { values: { 'args.amount': 500 } }, false],
  ['args.amount <= 100', { values: {}, absent: ['args.amount'] }, 'error'],
  ['args.amount <= 100', { values: {}, withheld: ['args.amount'] }, 'missing: args.amount'],
  ["args.amount <= 100 || 'support' in caller.roles", undefined, true],
  ["'support' in caller.roles || args.amount <= 100", undefined, true],
  ["args.amount <= 100 && 'finance' in caller.roles", undefined, false],
  ['args.a > 1 || args.b > 1', undefined, 'missing: args.a, args.b'],
  ['args.a > 1 || args.b > 1', { values: { 'args.b': 0 } }, 'missing: args.a'],
  ['args.a + args.none > 1', { values: {}, absent: ['args.none'] }, 'error'],
  ['has(args.amount)', undefined, 'missing: args.amount'],
  ['has(args.amount)', { values: { 'args.amount': null } }, true],
  ['has(args.to.iban)', { values: {}, absent: ['args.to.iban'] }, 'missing: args.to'],
  ['has(args.to) && !has(args.to.bic)', { values: { 'args.to.iban': 'x' }, absent: ['args.to.bic'] }, true],
  ['size(args.to) == 1', { values: { 'args.to.iban': 'x' } }, 'missing: args.to'],
  ['size(args) == 1', { values: { 'args.to.iban': 'x' } }, 'missing: args'],
  ['args.list[0] == 1', { values: { 'args.list[0]': 1 } }, 'missing: args.list'],
  ['args.a ? true : true', undefined, 'missing: args.a'],
  ['args.a ? args.none : vars.max', { values: {}, absent: ['args.none'] }, 'missing: args.a'],
  ['[1, 2].exists(x, x == args.a) || true', undefined, true],
  ["caller.roles.exists(r, r == args.a || r == 'support')", undefined, true],
  ['!args.a && false', undefined, false],
  ['params.x == 1 || args.a == 1', { values: { 'params.x': 1 } }, true],
]

describe('a condition on a recorded call', () => {
  for (const [source, kept, expected] of rows) {
    it(`${source} with ${JSON.stringify(kept) ?? 'nothing kept'} is ${String(expected)}`, () => {
      expect(recordedValue(compileExpression(source, { vars }), kept)).to.equal(expected)
    })
  }

  it('has the value that it had for all arguments, or none, and none more with less kept', function () {
    this.timeout(600_000)
    const random = randomFrom(seed)
    const generator = new ExpressionGenerator(random)
    const counts = { conditions: 0, decided: 0, wider: 0 }
    while (counts.conditions < propertyRuns(1500)) {
      const source = generator.condition(3)
      let expression: Expression
      try {
        expression = compileExpression(source, { vars })
      } catch (error) {
        if (error instanceof ExpressionError) continue
        throw error
      }
      const args = generator.arguments(false)
      const read = expression.reads.filter(({ names }) => names[0] === 'args' && names.length > 1)
      const chosen = read.filter(() => random() < 0.7)
      const paths = new Map<string, ReadPath>(chosen.map(({ path }) => [path, compilePath(path, { vars })]))
      const kept = keptValues(paths, variables(args), new CallScope())
      const live = expression.evaluate(variables(args), new CallScope())
      const told = `${source} ${JSON.stringify(args)} ${JSON.stringify(kept)} (SVC_PROPERTY_SEED=${seed})`
      counts.conditions++
      const recorded = recordedValue(expression, kept)
      if (String(recorded).startsWith('missing: ')) continue
      counts.decided++
      if (typeof live === 'boolean' || live instanceof Failure) {
        expect(recorded, told).to.equal(live instanceof Failure ? 'error' : live)
      }
      const { [Object.keys(kept.values)[0] ?? '']: _, ...fewer } = kept.values
      const dropped = recordedValue(expression, { values: fewer })
      if (String(dropped).startsWith('missing: ')) counts.wider++
      else expect(dropped, told).to.deep.equal(recorded)
    }
    expect(counts.decided).to.be.above(propertyRuns(250))
    expect(counts.wider).to.be.above(propertyRuns(30))
  })
})
