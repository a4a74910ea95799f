import {
  CallScope,
  compileExpression,
  type Expression,
  ExpressionError,
  Failure,
} from '@svc/plugin-rules/internal/engine/index'
import { compilePolicyRule, judge } from '@svc/plugin-rules/internal/rule'
import { expect } from 'chai'
import { propertyRuns } from '../../support/property-runs.js'
import { ExpressionGenerator, randomFrom } from './expression-generator.js'
import { libraryValue, NoValue, referenceValue, treeOf } from './reference-model.js'
import { variables, vars } from './rig.js'

const seed = Number(process.env['SVC_RULES_SEED'] ?? 20_261_124)

/** True, false, or why there is neither. */
function expected(source: string, read: object): boolean | 'error' {
  try {
    const value = referenceValue(treeOf(source), read as Record<string, unknown>)
    return typeof value === 'boolean' ? value : 'error'
  } catch (error) {
    if (error instanceof NoValue) return 'error'
    throw error
  }
}

function compiled(source: string): Expression | undefined {
  try {
    return compileExpression(source, { vars })
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return undefined
  }
}

describe(`random conditions over random arguments (seed ${seed})`, () => {
  const counts = { true: 0, false: 0, error: 0, library: 0 }

  it('have the value of a plain model, and never their permitting one if the model has an error', () => {
    const generator = new ExpressionGenerator(randomFrom(seed))
    for (let tries = 0; tries < propertyRuns(1600); tries++) {
      const source = generator.condition(4)
      const expression = compiled(source)
      if (expression === undefined) continue
      const rules = (['require', 'when'] as const).map((key) =>
        compilePolicyRule({ name: key, [key]: source, then: 'deny' }, vars),
      )
      for (let shape = 0; shape < 4; shape++) {
        const args = generator.arguments(false)
        const read = variables(args)
        const shown = `${source} with ${JSON.stringify(args)}`
        const wanted = expected(source, read)
        counts[`${wanted}`]++
        const value = expression.evaluate(read, new CallScope())
        const found = value instanceof Failure || typeof value !== 'boolean' ? 'error' : value
        expect(found, shown).to.equal(wanted)
        const [required, when] = rules.map((rule) => judge(rule, [read], new CallScope()).applies)
        if (wanted === 'error') expect([required, when], shown).to.deep.equal([true, true])
        if (wanted !== true) expect(required, shown).to.equal(true)
        if (wanted === true) expect(when, shown).to.equal(true)
        // The library compares names exactly, and its patterns are those of V8.
        const library =
          found === 'error' || /mount|matches/.test(source) ? undefined : libraryValue(source, { ...read })
        if (typeof library !== 'boolean') continue
        counts.library++
        expect(found, `the library: ${shown}`).to.equal(library)
      }
    }
  })

  it('deny under any claim what they deny without one', () => {
    const generator = new ExpressionGenerator(randomFrom(seed + 1))
    const claims = [{ agent: 'a' }, { agent: '', node: 'x' }, { agent: 'é😀' }]
    let mentioned = 0
    for (let tries = 0; tries < propertyRuns(1200); tries++) {
      const source = `${generator.condition(2)} || (${generator.condition(1)} && claimed.agent == "a")`
      const when = tries % 2 === 0
      if (compiled(source)?.mentions('claimed') !== true) continue
      mentioned++
      const rule = compilePolicyRule({ name: 'a', [when ? 'when' : 'require']: source, then: 'deny' }, vars)
      const args = generator.arguments(false)
      const without = judge(rule, [variables(args)], new CallScope()).applies
      for (const claimed of claims) {
        const { applies } = judge(rule, [variables(args, { claimed })], new CallScope())
        if (without) expect(applies, `${source} with ${JSON.stringify([args, claimed])}`).to.equal(true)
      }
    }
    expect(mentioned).to.be.greaterThan(30)
  })

  it('reach every verdict, and the library often has a value too', () => {
    for (const [verdict, count] of Object.entries(counts)) expect(count, verdict).to.be.greaterThan(30)
  })
})
