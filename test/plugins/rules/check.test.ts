import { policyTokens } from '@svc/core'
import { loadPolicy } from '@svc/core/policy'
import { rulesPlugin } from '@svc/plugin-rules'
import { expect } from 'chai'
import { container } from 'tsyringe'
import { z } from 'zod'
import { bindPolicy } from '../../support/check.js'

/** What a policy of rules is told: mistakes, warnings and notes as `line:column path: message`. */
function said(text: string, policy: Parameters<typeof bindPolicy>[1] = {}): string[] {
  const bindings = container.createChildContainer()
  bindPolicy(bindings, { host: { servers: ['billing'], vars: { max: 100, word: 'x' } }, ...policy })
  const result = loadPolicy({
    layers: [{ file: 'p', text }],
    host: z.strictObject({}),
    plugins: [rulesPlugin],
    bindings,
    env: {},
  })
  const found = result.ok ? [...result.policy.warnings, ...result.policy.notes] : result.mistakes
  return found.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`)
}

const rules = (...lines: string[]) =>
  ['rules:', '  - name: a', '    then: deny', ...lines.map((line) => `    ${line}`)].join('\n')

describe('a rule, when a policy is loaded', () => {
  // The same mistake, the unknown member of `caller`, in every form that YAML has for a text.
  const texts: readonly (readonly [string, string[]])[] = [
    ['plain', ["require: args.n > 1 && caller.rolls == 'x'"]],
    ['in double quotes with escapes', ['require: "args.s == \\"a\\" && caller.rolls == \\u0027x\\u0027"']],
    ['after escapes of several characters', ['require: "args.s == \\x22\\u0061\\x22 && caller.rolls == 1"']],
    ['in single quotes', ["require: 'args.s == ''a'' && caller.rolls == ''x'''"]],
    ['a literal block', ['require: |', '  args.n > 1 &&', '    caller.rolls == 1']],
    ['a folded block', ['require: >-', '  args.n > 1 &&', '', '  caller.rolls == 1']],
    ['plain over several lines', ['require: args.n > 1 &&', '    caller.rolls == 1']],
  ]
  for (const [form, lines] of texts) {
    it(`has its mistakes at their character: ${form}`, () => {
      const text = rules(...lines)
      const [found = '', ...others] = said(text)
      const [place = '', message] = found.split(' rules[0].require: ')
      const [line = 0, column = 0] = place.split(':').map(Number)
      expect([message, others]).to.deep.equal(['no such key: rolls', []])
      expect(text.split('\n')[line - 1]?.slice(column - 1)).to.match(/^rolls/)
    })
  }

  it('shows the line of its mistake with a caret', () => {
    const bindings = container.createChildContainer()
    const result = loadPolicy({
      layers: [{ file: 'p', text: rules("require: args.n > 1 && caller.rolls == 'x'") }],
      host: z.strictObject({}),
      plugins: [rulesPlugin],
      bindings,
      env: {},
    })
    const [mistake] = result.ok ? [] : result.mistakes
    expect(mistake?.excerpt?.split('\n')).to.deep.equal([
      "  4 |     require: args.n > 1 && caller.rolls == 'x'",
      '    |                                   ^',
    ])
  })

  it('is a mistake as a whole in some forms', () => {
    const forms: readonly (readonly [string[], string])[] = [
      [
        ['require: "true"', 'when: "true"'],
        '5:5 rules[0].when: a rule has either require or when; accepted is one of them',
      ],
      [
        ['approval_set_id: x'],
        '4:5 rules[0].approval_set_id: applies only with then: escalate, or else: escalate',
      ],
      [['keep: [args.n > 1]'], '4:12 rules[0].keep[0]: accepted is a path such as args.amount'],
      [['keep: [vars.nope]'], '4:17 rules[0].keep[0]: no such key: nope'],
    ]
    for (const [lines, wanted] of forms) expect(said(rules(...lines)), wanted).to.deep.equal([wanted])
    expect(said(`${rules()}\n  - { name: a, then: deny }`)).to.deep.equal([
      '4:7 rules[1].name: another rule is named "a"; accepted is a name of its own',
    ])
  })

  it('says that arguments are not checked without a pinned definition of the tool', () => {
    expect(said(rules('tools: [billing/refund]', 'require: args.amount < vars.max'))).to.deep.equal([
      '5:5 rules[0].require: args unchecked: no definition of the tool is pinned',
    ])
    expect(said(rules('require: "\'x\' in caller.roles"'))).to.deep.equal([])
  })

  describe('for a tool whose definition is pinned', () => {
    const schema = {
      type: 'object',
      required: ['amount', 'customer'],
      properties: {
        amount: { type: 'number' },
        note: { type: 'string' },
        customer: { type: 'object', additionalProperties: false, properties: { id: { type: 'string' } } },
        items: { type: 'array', items: { type: 'string' } },
        any: {},
      },
    }
    const toolSchemas = (pattern: string) => (pattern === 'billing/refund' ? schema : undefined)
    const check = (require: string, tool = 'billing/refund') =>
      said(rules(`tools: [${tool}]`, `require: ${require}`), { toolSchemas })
    const optional = (path: string) =>
      `5:5 rules[0].require: ${path} is optional in the schema of billing/refund: without it a condition has an error; ask by has(${path}) if it may be absent`

    for (const [require, wanted] of [
      ['args.amount < 5', []],
      ['args.amount > "5"', ['5:14 rules[0].require: no such overload: double > string']],
      ['args.amuont > 5', ['5:19 rules[0].require: no such key: amuont']],
      ['args.customer.idd == "x"', ['5:28 rules[0].require: no such key: idd']],
      ['args.note == "x"', [optional('args.note')]],
      ["args.amount > 1 && has(args.note) && args.note == 'x'", []],
      ['args.customer.id == "x"', [optional('args.customer.id')]],
      ['args.items.all(x, x > 1)', ['5:32 rules[0].require: no such overload: string > int']],
      ['args.any.whatever > 1 || args.amount < 5', [optional('args.any.whatever')]],
    ] as const) {
      it(`checks ${require}`, () => expect(check(require)).to.deep.equal(wanted))
    }

    it('says so of tools whose definitions are not', () => {
      expect(check('args.amount < 5', '"*/refund"')).to.have.length(1)
    })
  })

  it('states its escalations for the check of enforcement', () => {
    for (const { token, value } of rulesPlugin.owns ?? []) {
      if (token !== policyTokens.ruleEscalations) continue
      const section = rulesPlugin.schema.parse([
        { name: 'a', then: 'deny' },
        { name: 'b', then: 'escalate', approval_set_id: 'ops' },
      ])
      expect(value?.(section, container)).to.deep.equal([{ path: ['rules', 1], setId: 'ops' }])
    }
  })
})
