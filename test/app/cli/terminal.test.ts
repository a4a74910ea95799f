// Text that callers, servers and files choose cannot control the terminal on which a command prints it.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { visible, visibleInLine } from '@svc/core/json'
import { expect } from 'chai'
import { ap2Command } from 'svc-sdk/internal/cli/ap2'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { CallLines } from 'svc-sdk/internal/cli/call-lines'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { escalationsCommand } from 'svc-sdk/internal/cli/escalations'
import { ioOf } from 'svc-sdk/internal/cli/io'
import { keysCommand } from 'svc-sdk/internal/cli/keys'

import { logLines } from 'svc-sdk/internal/cli/log-lines'
import { lineLogger } from 'svc-sdk/internal/gateway/defaults'

import { appenderIn, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { runCommand } from '../../support/command.js'
import { svc } from '../../support/svc.js'
import { startUpstream } from '../../support/upstream.js'

const range = (first: number, last: number): string =>
  Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i)).join('')

/** Bidi marks and isolates, invisible characters, and separators of lines: the name of a tool may have them. */
const marks = [
  '\u00ad\u034f\u061c\u115f\u180e\u3164\ufe0f\ufeff',
  range(0x200b, 0x200f),
  range(0x2028, 0x202e),
  range(0x2060, 0x206f),
  '\u{e0001}\u{e0061}',
].join('')
const hidden = marks + range(0x7f, 0x9f)
const controls = range(1, 9) + range(0xb, 0x1f)
/** Text for an argument of a process and for a file's name. */
const word = `evil${hidden}${controls}`
const text = `evil\0${hidden}${controls}\nFORGED`
const dangerous = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u

describe('text made visible for a terminal', () => {
  it('is the same JSON value without control and invisible characters', () => {
    for (let first = 0; first < 0x11_0000; first += 0x800) {
      if (first === 0xd800) continue
      const value = range(first, first + 0x7ff)
      const json = visible(JSON.stringify(value))
      expect(JSON.parse(json) === value && !dangerous.test(json), first.toString(16)).to.equal(true)
    }
    expect(visible('a\nb')).to.equal('a\nb')
    expect(visibleInLine('a\nb')).to.equal('a\\u000ab')
    expect(visible('héllo 日本語 👍 ½')).to.equal('héllo 日本語 👍 ½')
  })
})

describe('the output of a command', () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-terminal-'))
  let log: string
  let admin: Awaited<ReturnType<typeof startUpstream>>

  before(async () => {
    log = join(dir, 'log')
    const appender = appenderIn(log, { signer })
    await appender.append(
      envelope({
        tenant: text,
        environment: text,
        client_name: text,
        server: `evil${hidden}@1.0.0`,
        tool: `evil${hidden}@1.0.0`,
        idempotency_key: text,
        agentRef: `evil${hidden}`,
        agentVariables: { [text]: text },
        agentMetadata: { [text]: text },
        risk_tags: [text],
        findings: [{ reason: text, stage: text, effect: 'reported', detail: text }],
      }),
    )
    await appender.close()
    writeFileSync(join(dir, `${word}.txt`), 'x')
    const policy = {
      tenant: text,
      port: 0,
      [text]: text,
      targets: { [`evil${hidden}`]: 'http://127.0.0.1:1' },
      plugins: [{ use: `./${word}.js`, version: '^1' }],
      audit: { gatewayName: text, gatewayVersion: '1', signer: { keyRef: `file://${word}` } },
      quotas: { adapter: text },
    }
    writeFileSync(join(dir, 'policy.yaml'), JSON.stringify(policy))
    const valid = {
      tenant: 'acme',
      port: 0,
      targets: { files: 'http://127.0.0.1:1' },
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1',
        minFreeMb: 0,
        signer: { keyRef: `file://evil${encodeURIComponent(hidden)}` },
      },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
    }
    writeFileSync(join(dir, 'valid.yaml'), JSON.stringify(valid))
    admin = await startUpstream((call, response) => {
      const one = {
        ...{ id: text, status: 'pending', tenant: text, principal: text, reference: text, reason: text },
        ...{ detail: text, args: text, severity: text, strategy: text, votes: [], created_at: text },
        ...{ expires_at: text, used: false, trace_id: text },
      }
      const list = { escalations: [one], more: false }
      const isList = call.path.startsWith('/api/escalations?')
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify(isList ? list : call.path.includes('/e1') ? one : { error: text, message: text }),
      )
    })
  })

  after(async () => {
    await admin[Symbol.asyncDispose]()
    rmSync(dir, { recursive: true })
  })

  const inProcess: Readonly<Record<string, Parameters<typeof runCommand>[0]>> = {
    audit: auditCommand,
    ap2: ap2Command,
    doctor: doctorCommand,
    escalations: (io) => escalationsCommand(io, { SVC_ADMIN_TOKEN: 'token', SVC_ADMIN_URL: admin.url }),
    keys: keysCommand,
  }

  /** Standard output and error together. */
  async function run([name = '', ...args]: readonly string[]): Promise<string> {
    const make = inProcess[name]
    if (make === undefined) {
      return new Promise((resolve) => {
        execFile(process.execPath, [svc, name, ...args], { cwd: dir }, (_error, stdout, stderr) =>
          resolve(stdout + stderr),
        )
      })
    }
    const { out, err } = await runCommand(make, args)
    return out + err
  }

  const inDir = (name: string): string => join(dir, name)
  const token = ['--token-ref', 'env:SVC_ADMIN_TOKEN']
  const mandate = [
    'ap2',
    'make',
    '--keys',
    inDir('keys.json'),
    '--audience',
    'a',
    '--total',
    '1',
    '--item',
    'i',
  ]
  const commands: readonly (readonly string[])[] = [
    ...['json', 'table', 'ecs', 'ocsf'].map((format) => ['audit', 'show', inDir('log'), '--format', format]),
    ['audit', 'show', inDir('log'), '--trace', envelope().trace_id],
    ['audit', 'show', word],
    ['audit', 'stats', inDir('log')],
    ['audit', 'stats', inDir('log'), '--json'],
    ['audit', 'verify', word],
    ['audit', 'verify', inDir('log'), '--origin', word],
    ['audit', 'check-proof', inDir('proof'), '--keys', inDir('log/public-keys')],
    ['audit', 'check-proof', inDir('proof'), '--keys', inDir('log/public-keys'), '--json'],
    ['audit', 'check-proof', word, '--keys', word],
    ['policy', 'check', 'policy.yaml'],
    ['policy', 'check', 'policy.yaml', '--json'],
    [
      'policy',
      'explain',
      'valid.yaml',
      '--tenant',
      word,
      '--server',
      'files',
      '--tool',
      `evil${marks}@1`,
      '--user',
      word,
    ],
    ['doctor', inDir('valid.yaml')],
    ['doctor', inDir('policy.yaml'), '--json'],
    ['ap2', 'inspect', word],
    ['ap2', 'inspect', inDir('made')],
    ['ap2', 'inspect', inDir('made'), '--json'],
    ['escalations', 'list', ...token],
    ['escalations', 'list', ...token, '--json'],
    ['escalations', 'show', 'e1', ...token],
    ['gateway', '--policy', 'policy.yaml'],
    ['gateway', '--policy', word],
    ['stdio', '--policy', 'policy.yaml', '--', 'true'],
    ['keys', 'generate', '--out', inDir(`${word}.txt`)],
    ['control-plane', `--port=${word}`],
    [word],
  ]

  it('has no control characters, whatever a record, policy, mandate or argument contains', async function () {
    this.timeout(120_000)
    await run(['audit', 'prove', inDir('log'), '--trace-id', envelope().trace_id, '--out', inDir('proof')])
    // The first run reports on standard error that it has created the keys.
    await run(mandate)
    writeFileSync(
      join(dir, 'made'),
      await run([...mandate, '--subject', text.replace('\0', ''), '--merchant', word]),
    )
    const queue = [...commands]
    const worker = async (): Promise<void> => {
      for (let args = queue.shift(); args !== undefined; args = queue.shift()) {
        const shown = await run(args)
        const told = visible(`svc ${args.join(' ')}:\n${shown}`)
        expect(shown, told).to.match(/evil/)
        expect(dangerous.exec(shown)?.index ?? -1, told).to.equal(-1)
        expect(
          shown.split('\n').filter((line) => line.startsWith('FORGED')),
          told,
        ).to.deep.equal([])
      }
    }
    await Promise.all([worker(), worker(), worker()])
  })

  it('is not changed for a proof that is written to a file', async () => {
    const args = ['audit', 'prove', inDir('log'), '--trace-id', envelope().trace_id]
    await run([...args, '--out', inDir('kept')])
    expect(await run(args)).to.equal(readFileSync(join(dir, 'kept'), 'utf8'))
  })

  it('has no control characters in the lines of a log', () => {
    const file = join(dir, 'lines')
    lineLogger({ name: 'svc' }, file).warn({ agent: text, err: new Error(text) }, text)
    const lines = readFileSync(file, 'utf8')
    expect(lines).not.to.match(dangerous)
    expect(JSON.parse(lines)).to.include({ agent: text, msg: text })
  })

  it('has no control characters in the lines of calls and of the log at a terminal', () => {
    let shown = ''
    const write = (line: string) => {
      shown += line
    }
    const streams = { isTTY: true, write: async (line: string) => write(line) }
    const { outLine } = ioOf({ stdout: streams, stderr: streams, exit: () => undefined })
    if (outLine === undefined) throw new Error('no terminal')
    const denied = { reason: text, stage: text, effect: 'deny', detail: text } as const
    const record = envelope({
      server: `${text}@1`,
      tool: `${text}@1`,
      principal: { user: text },
      findings: [denied],
    })
    new CallLines(outLine).show(record)
    lineLogger({ name: 'svc' }, logLines(outLine)).warn({ agent: text, err: new Error(text) }, text)
    expect(shown).to.match(/evil.*\n.*evil/)
    expect(shown).not.to.match(dangerous)
    expect(shown.trim().split('\n')).to.have.length(2)
  })

  it('is written only by io.ts', () => {
    const folder = fileURLToPath(new URL('../../../../app/cli/', import.meta.url))
    const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    )
    const writing = sources.filter((name) =>
      /process\.std(out|err)\.write|\bconsole\.(?!js)/.test(readFileSync(join(folder, name), 'utf8')),
    )
    expect(writing).to.deep.equal(['io.ts'])
  })
})
