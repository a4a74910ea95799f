import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { runTests } from 'svc-sdk/internal/policy-tools/test/run-tests'
import { parse } from 'yaml'
import { Chance } from '../../support/chance.js'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const quickStart = fileURLToPath(new URL('../../../../examples/quick-start/', import.meta.url))

interface RuleText {
  readonly name: string
  readonly tools?: readonly string[]
  readonly require?: string
  readonly when?: string
  readonly then: string
}

/** The part of a policy that is changed. */
interface Mutated {
  readonly vars: Readonly<Record<string, number>>
  readonly rules: readonly RuleText[]
}

const comparisons = ['<', '<=', '>', '>=', '==', '!=']

/** Every condition that differs from this one at one place. */
function conditionMutants(source: string): string[] {
  const tokens = source.split(/(\s+|<=|>=|==|!=|&&|\|\||<|>|[\w.]+)/).filter((token) => token !== '')
  const replaced = tokens.flatMap((token, index) =>
    alternatives(token).map((other) =>
      [...tokens.slice(0, index), other, ...tokens.slice(index + 1)].join(''),
    ),
  )
  const operands = source.split(/\s*&&\s*/)
  const without =
    operands.length < 2
      ? []
      : operands.map((_, index) => operands.filter((__, i) => i !== index).join(' && '))
  return [...replaced, ...without, `!(${source})`, 'true', 'false']
}

function alternatives(token: string): string[] {
  if (comparisons.includes(token)) return comparisons.filter((other) => other !== token)
  if (token === '&&') return ['||']
  if (token === '||') return ['&&']
  if (/^\d+$/.test(token))
    return [String(Number(token) + 1), `(${Number(token) - 1})`, String(Number(token) * 10 + 7)]
  if (token.startsWith('args.')) return [`${token}_other`, 'args.reason']
  return []
}

/** Every rule that differs from this one at one place; none stands for its removal. */
function ruleMutants(rule: RuleText): (RuleText | undefined)[] {
  const { require, when, ...rest } = rule
  const source = require ?? when
  const kind = require === undefined ? 'when' : 'require'
  return [
    undefined,
    ...['deny', 'escalate', 'confirm', 'report']
      .filter((then) => then !== rule.then)
      .map((then) => ({ ...rule, then })),
    ...[['billing/get_invoice'], ['*'], ['billing/refund'], ['billing/refund_payment@2.*']].map((tools) => ({
      ...rule,
      tools,
    })),
    ...(source === undefined
      ? []
      : [
          rest,
          { ...rest, [kind === 'when' ? 'require' : 'when']: source },
          ...conditionMutants(source).map((condition) => ({ ...rest, [kind]: condition })),
        ]),
  ]
}

function mutantsOf({ vars, rules }: Mutated): Mutated[] {
  const ofVars = Object.entries(vars).flatMap(([name, value]) =>
    [value + 1, value - 1, value * 10, -value].map((other) => ({ vars: { ...vars, [name]: other }, rules })),
  )
  const ofRules = rules.flatMap((rule, index) =>
    ruleMutants(rule).map((other) => ({
      vars,
      rules: [...rules.slice(0, index), ...(other === undefined ? [] : [other]), ...rules.slice(index + 1)],
    })),
  )
  return [...ofVars, ...ofRules]
}

describe('the tests of the policy of the quick start', () => {
  it('fail for at least 95 % of policies whose rules were changed at one place or two', async () => {
    using folder = new TemporaryDir()
    const original = parse(readFileSync(join(quickStart, 'policy.yaml'), 'utf8')) as Mutated
    const keyOf = ({ vars, rules }: Mutated) => JSON.stringify([vars, rules])
    const distinct = (mutants: readonly Mutated[]) =>
      [...new Map(mutants.map((one) => [keyOf(one), one])).values()].filter(
        (one) => keyOf(one) !== keyOf(original),
      )
    const first = distinct(mutantsOf(original))
    const random = new Chance(26)
    const second = distinct(first.flatMap(mutantsOf)).sort(() => random.next() - 0.5)
    const chosen = distinct([...first, ...second]).slice(0, Math.min(1_000, propertyRuns(30)))
    const survivors: string[] = []
    let judged = 0
    for (const mutant of chosen) {
      const file = join(folder.path, 'policy.yaml')
      writeFileSync(file, JSON.stringify({ ...original, ...mutant }))
      const loaded = await loadPolicyFile(file, {}, false)
      // A mutant that does not load is found by `policy check`.
      if (!loaded.ok) continue
      const { results, mistakes } = await runTests([join(quickStart, 'policy.test.yaml')], {
        env: {},
        policy: file,
        load: async () => ({ policy: loaded.policy }),
      })
      expect(mistakes).to.deep.equal([])
      judged++
      const isKilled = results.some(({ files }) =>
        files.some(({ cases }) => cases.some(({ difference }) => difference !== undefined)),
      )
      if (!isKilled) survivors.push(keyOf(mutant))
    }
    expect(judged).to.be.above(chosen.length / 2)
    expect(survivors.length / judged, survivors.join('\n')).to.be.at.most(0.05)
  })
})
