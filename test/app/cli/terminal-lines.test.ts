// `svc gateway` and `svc stdio` at a real terminal: what they print at the start and for each call.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { CallLines, callPieces } from 'svc-sdk/internal/cli/call-lines'
import { envelope } from '../../plugins/audit/log/writer/records.js'
import { endWithRunner } from '../../support/child-lifetime.js'
import { until } from '../../support/stdio-target.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))

/** A command at a pseudo-terminal (`script` of util-linux), to which keys can be sent. */
class AtTerminal implements AsyncDisposable {
  out = ''
  readonly exit: Promise<unknown>
  #child

  constructor(args: readonly string[], cwd: string, env: Readonly<Record<string, string>>) {
    // With `exec` no shell remains that Ctrl+C would end too, with a status of its own.
    const command = `exec ${[process.execPath, svc, ...args].map((arg) => `'${arg}'`).join(' ')}`
    // Node writes no colours in most environments of continuous integration.
    const { NO_COLOR: _color, CI: _ci, ...own } = process.env
    this.#child = endWithRunner(
      spawn('script', ['-qec', command, '/dev/null'], {
        cwd,
        env: { ...own, TERM: 'xterm-256color', COLUMNS: '200', ...env },
        stdio: 'pipe',
      }),
    )
    this.#child.stdout.on('data', (piece: Buffer) => {
      this.out += piece.toString().replaceAll('\r', '')
    })
    this.exit = once(this.#child, 'exit').then(([code]) => code)
  }

  /** The output without colours, when it has the text. */
  async plain(text: string | RegExp): Promise<string> {
    await until(() => (typeof text === 'string' ? this.#plain.includes(text) : text.test(this.#plain)))
    return this.#plain
  }

  get #plain(): string {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character begins a colour.
    return this.out.replace(/\x1b\[\d+m/g, '')
  }

  /** Ctrl+C. */
  interrupt(): void {
    this.#child.stdin.write('\x03')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null) this.interrupt()
    await this.exit
  }
}

async function callTools(url: string, names: readonly string[]): Promise<void> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  for (const name of names) await client.callTool({ name }).catch(() => undefined)
  await client.close()
}

describe('at a terminal', function () {
  this.timeout(60_000)

  const home = temporaryDir()
  beforeEach(() => {
    generateKeyFile(join(home.path, 'key'))
    const target = { command: process.execPath, args: [scripted] }
    writeFileSync(
      join(home.path, 'policy.yaml'),
      `tenant: acme
port: 0
targets: ${JSON.stringify({ files: target })}
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
entitlements: { default_plan: a, plans: { a: { allowlist: [files/pid] } }, tenants: {} }
`,
    )
  })

  const urlIn = (text: string): string => /http:\/\/127\.0\.0\.1:\d+\/mcp\/\w+/.exec(text)?.[0] ?? ''

  it('a gateway says what is allowed and where its log is, then a line for each call', async () => {
    await using gateway = new AtTerminal(['gateway', '--policy', 'policy.yaml'], home.path, {})
    const started = await gateway.plain(/log .*\n/)
    expect(started).to.match(
      /^svc-sdk gateway listens on http:\/\/127\.0\.0\.1:\d+; Ctrl\+C ends it\n {2}mode {7}enforce: every finding denies\n {2}callers {4}need no token\n {2}tools {6}files\/pid\n {2}servers {4}files {2}http:\S+\/mcp\/files\n {2}log {8}\.svc\/audit\n/,
    )
    await callTools(urlIn(started), ['pid', 'exit'])
    const shown = await gateway.plain(/--trace-id \w+\n/)
    expect(shown).to.match(/^\d\d:\d\d:\d\d {2}anonymous {5}files\/pid {21}allow +[\d.]+ ms$/m)
    const denied =
      /^\S+ {2}anonymous {5}files\/exit {20}deny +[\d.]+ ms {2}tool_not_in_allowlist: no allowlist .* {2}(node \S+ audit show .*)$/m
    const [, command = ''] = denied.exec(shown) ?? []
    const args = command.split(' ').slice(2)
    const { stdout } = await promisify(execFile)(process.execPath, [svc, ...args], { cwd: home.path })
    expect(JSON.parse(stdout)).to.include({ tool: 'exit@3.1.0' })
    expect(gateway.out).to.contain('\x1b[32mallow')
    expect(shown, 'requests of the protocol').not.to.contain('initialize')
    gateway.interrupt()
    expect(await gateway.exit).to.equal(0)
  })

  it('a gateway without a policy prints settings for clients, and the command that approves a call', async () => {
    const target = `files=${process.execPath} ${scripted}`
    const args = ['gateway', '--target', target, '--preset', 'guard', '--port', '0', '--admin-port', '0']
    await using gateway = new AtTerminal(args, home.path, { XDG_STATE_HOME: home.path })
    const started = await gateway.plain(/^ +client +.*\n/m)
    const url = urlIn(started)
    const snippet = JSON.parse(/^ +client +(.*)$/m.exec(started)?.[1] ?? '')
    expect(snippet).to.deep.equal({ mcpServers: { files: { type: 'http', url } } })
    expect(started).to.match(
      /^ {2}console {4}http:\/\/127\.0\.0\.1:\d+\/console, with the token in file:\/\/\S+admin\.token$/m,
    )
    await callTools(url, ['delete_all'])
    const shown = await gateway.plain(/--token-ref \S+\n$/)
    const [, command = ''] =
      /files\/delete_all +wait .* node \S+ (escalations approve .*)\n$/.exec(shown) ?? []
    const { stdout } = await promisify(execFile)(process.execPath, [svc, ...command.split(' ')], {
      cwd: home.path,
    })
    expect(stdout).to.match(/status +approved/)
    await callTools(url, ['delete_all'])
    await gateway.plain(/files\/delete_all +(?:failed|allow) /)
  })

  it('has no colours with NO_COLOR, and no lines of calls with --quiet', async () => {
    await using plain = new AtTerminal(['gateway', '--policy', 'policy.yaml'], home.path, { NO_COLOR: '1' })
    await plain.plain(/log .*\n/)
    expect(plain.out).not.to.contain('\x1b')
    const port = new URL(urlIn(plain.out)).port
    plain.interrupt()
    await plain.exit
    const args = ['gateway', '--policy', 'policy.yaml', '--quiet', '--port', port]
    await using quiet = new AtTerminal(args, home.path, {})
    const url = `http://127.0.0.1:${port}`
    await until(async () => (await fetch(`${url}/healthz`).catch(() => undefined))?.ok === true)
    await callTools(`${url}/mcp/files`, ['exit'])
    quiet.interrupt()
    expect(await quiet.exit).to.equal(0)
    expect(quiet.out).to.equal('^C')
  })

  it('svc stdio says what a client needs, on standard error', async () => {
    const args = ['stdio', '--preset', 'observe', '--name', 'files', '--', process.execPath, scripted]
    await using stdio = new AtTerminal(args, home.path, { XDG_STATE_HOME: home.path })
    const started = await stdio.plain(/^ +client +.*\n/m)
    const snippet = JSON.parse(/^ +client +(.*)$/m.exec(started)?.[1] ?? '')
    expect(snippet).to.deep.equal({
      mcpServers: { files: { command: process.execPath, args: [svc, ...args] } },
    })
    expect(started).to.match(/mode +observe: findings deny nothing, and are recorded\n/)
    expect(started).to.contain(join('svc', 'logs', 'files'))
  })
})

describe('the line of a call', () => {
  const further = {
    show: (id: string) => `show ${id}`,
    approve: (id: string) => `approve ${id}`,
    stats: 'stats',
  }
  const finding = (effect: 'deny' | 'would_deny' | 'escalate' | 'reported') => ({
    findings: [{ reason: 'fs_violation', stage: 'security', detail: '$.path', effect }],
  })
  const deny = { policy: { decision: 'deny', retention: 'standard' }, status: 'error' } as const
  const rows: readonly (readonly [string, Partial<AuditEnvelope>, string])[] = [
    ['of a call that was allowed', {}, 'allow'],
    ['of a finding that is only reported', finding('reported'), 'allow'],
    ['of what guard would refuse', finding('would_deny'), 'would deny  fs_violation: $.path  show T'],
    ['of a denied call', { ...deny, ...finding('deny') }, 'deny  fs_violation: $.path  show T'],
    ['of a call over its limit', { ...deny, error: 'RATE_LIMITED' }, 'deny  RATE_LIMITED  show T'],
    [
      'of a call that waits',
      { ...deny, ...finding('escalate'), error: 'ESCALATION_PENDING', escalation_id: 'esc_1' },
      'wait  fs_violation: $.path  approve esc_1',
    ],
    [
      'of a failed call',
      { status: 'error', error: 'UPSTREAM_UNREACHABLE' },
      'failed  UPSTREAM_UNREACHABLE  show T',
    ],
    [
      'of a failed call with a finding that did not decide',
      { status: 'error', error: 'UPSTREAM', ...finding('would_deny') },
      'failed  UPSTREAM; would deny: fs_violation: $.path  show T',
    ],
  ]
  for (const [title, changes, says] of rows) {
    it(`has the decision and its reason, ${title}`, () => {
      const record = envelope({ trace_id: 'T', principal: { user: 'ada' }, ...changes })
      const text = callPieces(record, 0, further)
        .map((piece) => piece.text)
        .join('')
      expect(text).to.match(/^\d\d:\d\d:\d\d {2}ada +files\/read +/)
      expect(text.replace(/^.*files\/read +/, '').replace(/ +1\.50 ms/, '')).to.equal(says)
    })
  }

  it('gives way to a number if there are more calls than a terminal can show', () => {
    const lines: string[] = []
    const calls = new CallLines((...pieces) => lines.push(pieces.map(({ text }) => text).join('')))
    for (let index = 0; index < 10_000; index++) calls.show(envelope())
    expect(lines.length).to.be.within(40, 400)
  })
})
