// What the commands on policies say about rules by which the person at the client confirms a call.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { type Printed, runPolicy } from '../../support/policy-command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const policy = (rule: string): string => `tenant: demo
port: 0
targets: { billing: "mcp+http://127.0.0.1:9/mcp" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn: { allowUnauthenticated: true }
quotas: { adapter: memory }
entitlements: open
admin: { port: 0 }
rules:
  - ${rule}
`
const confirm = (more: string): string =>
  `{ name: large, tools: ["*/refund"], when: args.amount > 100, then: confirm, ${more} }`

describe('a rule with then: confirm', () => {
  async function run(command: string, files: readonly string[], ...more: string[]): Promise<Printed> {
    using folder = new TemporaryDir()
    const paths = files.map((text, index) => {
      const path = join(folder.path, index === 0 ? 'svc.yaml' : `svc${index}.yaml`)
      writeFileSync(path, text)
      return path
    })
    const printed = await runPolicy([command, ...paths, ...more])
    const short = (line: string) => line.replaceAll(`${folder.path}/`, '')
    return { lines: printed.lines.map(short), errors: printed.errors.map(short), exit: printed.exit }
  }

  it('is a decision of its own in policy test and policy explain', async () => {
    using folder = new TemporaryDir()
    writeFileSync(join(folder.path, 'svc.yaml'), policy(confirm('ask: "Refund {args.amount}?"')))
    const file = join(folder.path, 'svc.test.yaml')
    const calls = [
      '{ call: billing/refund, arguments: { amount: 312 }, expect: confirm, reason: "rule:large" }',
      '{ call: billing/refund, arguments: { amount: 5 }, expect: allow }',
    ]
    writeFileSync(file, `cases: [{ name: it, calls: [${calls.join(', ')}] }]`)
    const { exit, lines } = await runPolicy(['test', file])
    expect(exit, lines.join('\n')).to.equal(0)
    const asked = ['--tenant', 'demo', '--server', 'billing', '--tool', 'refund', '--args', '{"amount":312}']
    const text = policy(confirm('else: escalate'))
    const explained = await run('explain', [text], ...asked, '--expect', 'confirm')
    expect(explained.exit, explained.lines.join('\n')).to.equal(0)
    expect(explained.lines.join('\n')).to.contain('so confirm')
    expect(explained.lines.join('\n')).to.contain(
      'would ask the person at the client to confirm; of a client without forms it is escalated',
    )
  })

  for (const [before, after, expected] of [
    [
      '{ name: large, then: escalate }',
      '{ name: large, then: confirm }',
      'escalated by rule:large -> confirmed by rule:large',
    ],
    ['{ name: large, then: confirm }', '{ name: large, then: report }', 'confirmed by rule:large -> allowed'],
    [
      '{ name: large, then: confirm }',
      '{ name: large, then: confirm, else: escalate }',
      'without a form: denied by rule:large -> escalated by rule:large',
    ],
  ] as const) {
    it(`shows in policy diff that callers gain: ${expected}`, async () => {
      const { lines } = await run('diff', [policy(before), policy(after)])
      expect(lines.find((line) => line.includes(expected))).to.match(/^ {2}\+ /)
    })
  }

  it('is checked: its question, at the character of a mistake, and keys that need it', async () => {
    for (const [rule, message] of [
      [confirm('ask: "Refund {args.amount +}?"'), /rules\[0\]\.ask/],
      [confirm('ask: "Refund {vars.nothing}?"'), /rules\[0\]\.ask.*nothing/],
      ['{ name: a, then: deny, ask: "Sure?" }', /applies only with then: confirm/],
      ['{ name: a, then: escalate, else: deny }', /applies only with then: confirm/],
      ['{ name: a, then: confirm, approval_set_id: ops }', /then: escalate, or else: escalate/],
    ] as const) {
      const { errors, lines, exit } = await run('check', [policy(rule)])
      expect(exit, rule).to.equal(1)
      expect([...errors, ...lines].join('\n')).to.match(message)
    }
  })
})
