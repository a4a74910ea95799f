// Runs the commands of the pages in a scratch directory, and checks the names of all others.
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { programFor } from 'svc-sdk/internal/cli/program'
import { envelope } from '../plugins/audit/log/writer/records.js'
import { type Block, blocks, nameOf, pages, root, textOf } from '../support/pages.js'
import { copyQuickStart, startQuickStart } from '../support/quick-start.js'
import { svc } from '../support/svc.js'
import { TemporaryDir } from '../support/temporary-dir.js'

/** Blocks of commands that are not run here: the test that does so, or why none does. */
const elsewhere: Readonly<Record<string, string>> = {
  'CONTRIBUTING.md: npx tsc -b test && test/node_modules/.bin/mocha --no-config -n conditions=svc-internal --timeout 60000 --reporter spec test/dist/core/pipeline/order.test.js':
    'runs tests',
  'docs/admin.md: export SVC_ADMIN_URL=http://127.0.0.1:9090 SVC_ADMIN_TOKEN=...   # your own bearer token, or the admin token':
    'test/app/cli/escalations.test.ts',
  "docs/admin.md: npx svc-sdk block --principal mallory@acme.example --for 2h --reason 'stolen token' --policy policy.yaml":
    'test/app/blocks/gateways.test.ts',
  'docs/admin.md: curl -s http://127.0.0.1:9090/api/escalations/ID/votes -H "authorization: Bearer $TOKEN" \\':
    'test/app/admin/escalations.test.ts',
  'docs/ap2.md: npx svc-sdk ap2 make --audience shop --total 1999 --item shoe lace:2 --header > bundle.txt':
    'test/app/ap2-page.test.ts',
  "docs/ap2.md: curl -s http://127.0.0.1:8787/mcp/shop/buy@1.0.0 -H 'content-type: application/json' \\":
    'test/app/ap2-page.test.ts',
  'docs/verify.md: npx svc-sdk audit bundle $LOG --tenant acme --since 2026-11-01 --until 2026-12-01 --estimate':
    'test/app/cli/audit-evidence.test.ts',
  'docs/bundlers.md: npx esbuild audit.ts --bundle --platform=node --format=cjs --outfile=out/audit.cjs':
    'test/packages/bundles.test.ts',
  'docs/bundlers.md: npx esbuild audit.ts --bundle --platform=node --format=esm --outfile=out/audit.mjs \\':
    'test/packages/bundles.test.ts',
  'docs/collectors.md: npx svc-sdk audit show /var/lib/svc/audit --follow --format ocsf --from 0 | vector --config /etc/vector/stdin.yaml':
    'test/app/cli/audit-show.test.ts',
  'docs/compliance.md: npx svc-sdk audit verify /var/lib/svc/audit --keys audit-keys --against kept.checkpoint --witness-keys witnesses.pub --json':
    'test/app/cli/audit-evidence.test.ts',
  "docs/idempotency.md: curl -i localhost:8787/mcp/shop/buy@1.0.0 -H 'content-type: application/json' -H 'idempotency-key: 5f0c1c9e' -d '{\"item\":7}'":
    'test/app/idempotency-page.test.ts',
  'docs/install.md: mkdir -p /tmp/svc': 'test/packages/publish.test.ts',
  'docs/mcp.md: curl -s http://127.0.0.1:8787/mcp/everything/echo@unversioned -H \'content-type: application/json\' -d \'{"message":"hi"}\'':
    'test/app/mcp/tool-client.test.ts',
  'docs/operations/install.md: useradd --system --home-dir /var/lib/svc --shell /usr/sbin/nologin svc':
    'test/examples/page-operations.test.ts',
  "docs/operations/install.md: sed 's/policy.yaml/policy-%i.yaml/' svc-gateway.service > /etc/systemd/system/svc-gateway@.service":
    'test/examples/hosts/systemd.test.ts',
  'docs/operations/install.md: npx svc-sdk keys generate --out keys/audit.key':
    'test/examples/page-operations.test.ts',
  'docs/operations/install.md: curl --cacert tls/gateway.crt https://localhost:8787/readyz':
    'test/examples/page-operations.test.ts',
  'docs/operations/recover.md: npx svc-sdk audit fetch https://audit.example.com /var/lib/svc/restored --key-file keys/read.key --keys keys/audit.pub':
    'test/examples/page-operations.test.ts',
  'docs/operations/recover.md: npx svc-sdk audit resume /var/lib/svc/restored   # the same log goes on':
    'test/examples/page-operations.test.ts',
  'docs/operations/recover.md: npx svc-sdk keys generate --out keys/next.key':
    'test/examples/page-operations.test.ts',
  'docs/operations/recover.md: curl --cacert tls/gateway.crt https://localhost:8787/readyz':
    'test/examples/page-operations.test.ts',
  "docs/policies.md: sed 's/max_refund: 500/max_refund: 450/' policy.yaml > next.yaml":
    'test/examples/page-policies.test.ts',
  'docs/policies.md: npx svc-sdk policy replay next.yaml --log .svc/audit --keys .svc/signing.key':
    'test/examples/page-policies.test.ts',
  "docs/policies.md: echo 'shadow: { policy: next.yaml }' >> policy.yaml":
    'test/examples/page-policies.test.ts',
  'docs/policies.md: npx svc-sdk policy shadow --policy policy.yaml': 'test/examples/page-policies.test.ts',
  "examples/signer-pkcs11/README.md: npx svc-sdk keys public 'pkcs11:…' --plugin @svc/signer-pkcs11 > keys.txt":
    'test/examples/signer-pkcs11.test.ts',
  'docs/policies.md: mv next.yaml policy.yaml': 'test/examples/page-policies.test.ts',
  'docs/policies.md: npx svc-sdk policy suggest policy.yaml --log .svc/audit --min-days 0 --out narrow.yaml':
    'test/examples/page-policies.test.ts',
  'docs/policies.md: npx svc-sdk policy diff old.yaml new.yaml --log .svc/audit --tools tools.lock.yaml':
    'test/app/cli/policy-diff.test.ts',
  'docs/policies.md: npx svc-sdk policy test policy.test.yaml': 'test/app/cli/policy-test.test.ts',
  'docs/policies.md: npx svc-sdk policy suggest policy.yaml --log .svc/audit --out narrow.yaml':
    'test/app/cli/policy-suggest.test.ts',
  'docs/policies.md: npx svc-sdk policy replay new.yaml --log .svc/audit --keys audit.keys':
    'test/app/cli/policy-replay.test.ts',
  'docs/privacy.md: printf %s ada@example.com | openssl dgst -sha256 -hmac "$(cat .svc/privacy.key)"':
    'test/examples/docs-policies.test.ts',
  'docs/server.md: npx svc-sdk keys generate --out signing.key': 'test/examples/docs-server.test.ts',
  'docs/server.md: npx svc-sdk doctor FILE          # --json for programs': 'test/app/cli/doctor.test.ts',
  "docs/stdio.md: npx svc-sdk gateway --target files='node_modules/.bin/mcp-server-filesystem /srv/docs' --target https://mcp.example.com/mcp":
    'test/app/cli/gateway.test.ts',
  'docs/stdio.md: npx svc-sdk escalations list --admin http://127.0.0.1:8797 --token-ref file://$HOME/.local/state/svc/admin.token':
    'test/app/cli/escalations.test.ts',
  'examples/runtime-evaluator/README.md: npx svc-sdk keys generate --out examples/runtime-evaluator/.svc/signing.key':
    'test/examples/runtime-evaluator.test.ts',
  'examples/runtime-evaluator/README.md: curl -s http://127.0.0.1:8791/mcp/billing/refund_payment@1.0.0 \\':
    'test/examples/runtime-evaluator.test.ts',
}

const shell = blocks.filter(({ language }) => language === 'sh')
/** Blocks that install or build are run by CI as a whole, not by a test. */
const isInstallation = ({ start }: Block) => /^(npm|node|git|python3) /.test(start)
const isTour = (block: Block) =>
  ['README.md', 'docs/quick-start.md'].includes(block.page) && !isInstallation(block)
/** Lines of `svc-sdk` alone: no block runs here that could change more than a scratch directory. */
const isHere = (block: Block) =>
  !isTour(block) &&
  elsewhere[nameOf(block)] === undefined &&
  block.text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .every((line) => /^(npx svc-sdk |#|$)/.test(line))

describe('the commands of the pages', function () {
  this.timeout(120_000)

  it('exist, with their options', async () => {
    const program = await programFor()
    const mistakes = [...pages, 'docs/session.svg'].flatMap((page) =>
      commandsOf(page).flatMap((words) => {
        const mistake = mistakeIn(program, words)
        return mistake === undefined ? [] : [`${page}: ${words.join(' ')}: ${mistake}`]
      }),
    )
    expect(mistakes).to.deep.equal([])
  })

  it('name scripts of npm that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object }
    const named = pages.flatMap((page) =>
      [...textOf(page).matchAll(/npm run ([\w:-]+)(?! --workspace)/g)].map(([, name = '']) => name),
    )
    expect(named.filter((name) => !Object.hasOwn(scripts, name))).to.deep.equal([])
  })

  it('run here, or a table says where or why not', () => {
    const names = shell.map(nameOf)
    expect(Object.keys(elsewhere).filter((name) => !names.includes(name))).to.deep.equal([])
    const untold = shell.filter((block) => !isInstallation(block) && !isTour(block) && !isHere(block))
    expect(untold.map(nameOf).filter((name) => elsewhere[name] === undefined)).to.deep.equal([])
    const tests = Object.values(elsewhere).filter((value) => value.startsWith('test/'))
    expect(tests.filter((file) => !existsSync(join(root, file)))).to.deep.equal([])
  })

  const runnable = shell.filter(isHere)
  for (const block of runnable.filter(
    ({ text }, at) => runnable.findIndex((one) => one.text === text) === at,
  )) {
    it(`run as they stand: ${nameOf(block)}`, async () => {
      using home = new TemporaryDir()
      const origin = await fill(home.path)
      const lines = block.text
        .replaceAll('/var/lib/svc/audit', 'audit')
        .replaceAll(/\bDIR\b/g, 'audit')
        .replaceAll(/\bORIGIN\b/g, origin)
        .replaceAll('ed25519:…', LocalDevSigner.fromKeyRef(`file://${home.path}/old.key`).keyId)
      await run(lines, home.path)
    })
  }

  it('run as they stand in the quick start', async () => {
    using home = new TemporaryDir()
    const directory = copyQuickStart(home.path)
    await using example = startQuickStart(directory)
    const url = await example.prints(/listens on (http:\S+)/)
    const adminUrl = await example.prints(/--admin (http:\S+)/)
    let id = ''
    for (const block of shell.filter(isTour)) {
      const lines = block.text
        .replaceAll('http://127.0.0.1:8787', url)
        .replaceAll('http://127.0.0.1:8789', adminUrl)
        .replaceAll(/esc_9ad0\w*/g, id)
      const printed = await run(lines, block.page === 'README.md' ? home.path : directory)
      id = /esc_\w+/.exec(printed)?.[0] ?? id
      const shown = blocks[blocks.indexOf(block) + 1]
      if (shown?.language === 'text') expect(withoutIds(printed)).to.equal(withoutIds(shown.text))
    }
  })
})

const withoutIds = (text: string) => text.trim().replaceAll(/[0-9a-f]{32}/g, 'ID')

/** Commands of `svc-sdk` in blocks and in code within the text, as words. */
function commandsOf(page: string): string[][] {
  const recorded = page.endsWith('.svg') ? [/<desc.*<\/desc>/s.exec(textOf(page))?.[0] ?? ''] : []
  const inBlocks = blocks
    .filter((block) => block.page === page && ['', 'sh', 'console'].includes(block.language))
    .map((block) => block.text)
    .concat(recorded)
    .flatMap((text) => text.replaceAll(/\\\n\s*/g, '').split('\n'))
    .flatMap((line) => /(?:^|[;&(]|\$ )\s*npx (?:--no |-y )?svc-sdk (.*)/.exec(line)?.[1] ?? [])
  const text = textOf(page).replaceAll(/^ *```.*?^ *```$/gms, '')
  const inText = [...text.matchAll(/`(?:npx svc-sdk|svc) ([^`]*)`/g)].map(([, words = '']) => words)
  return [...inBlocks, ...inText].map(
    (line) =>
      line
        .split(/ #| [|>;&] | -- /)[0]
        ?.trim()
        .split(/\s+/) ?? [],
  )
}

type Program = Awaited<ReturnType<typeof programFor>>

function mistakeIn(program: Program, words: readonly string[]): string | undefined {
  let command: Program | Program['commands'][number] = program
  let at = 0
  for (; at < words.length; at++) {
    const next = command.commands.find((one) => one.name() === words[at])
    if (next === undefined) break
    command = next
  }
  if (command === program && !/^-/.test(words[0] ?? '')) return 'no such command'
  if (command.commands.length > 0 && /^[a-z-]+$/.test(words[at] ?? '-') && !/^-/.test(words[at] ?? '-')) {
    return `no command ${words[at]}`
  }
  if (command.name() === 'control-plane') return undefined
  const known = ['--help', ...command.options.flatMap(({ long }) => long ?? [])]
  return words
    .flatMap((word) => /^\[?(--[a-z][\w-]*)/.exec(word)?.[1] ?? [])
    .filter((option) => !known.includes(option))
    .map((option) => `no option ${option}`)[0]
}

/** What blocks name: a log with two heads, keys, a policy. Returns the origin of the log. */
async function fill(home: string): Promise<string> {
  for (const name of ['keys', '.svc', 'bin']) mkdirSync(join(home, name))
  const { publicKey } = generateKeyFile(join(home, 'audit.key'))
  writeFileSync(join(home, 'audit.pub'), `${publicKey}\n`)
  for (const name of ['old.key', 'keys/audit.key']) cpSync(join(home, 'audit.key'), join(home, name))
  generateKeyFile(join(home, 'new.key'))
  const signer = LocalDevSigner.fromKeyRef(`file://${home}/audit.key`)
  const log = new SvcAppender({ config: { dir: join(home, 'audit'), retentionDays: 90 }, signer })
  const day = new Date().toISOString().slice(0, 10)
  const head = () => {
    const notes = readFileSync(join(home, 'audit', `audit-${day}.checkpoint`), 'utf8')
    return notes.slice(notes.lastIndexOf(`${notes.split('\n')[0]}\n`))
  }
  await log.append(envelope({ ts: new Date().toISOString() }))
  await log.seal()
  for (const name of ['older', 'kept', 'head']) writeFileSync(join(home, `${name}.checkpoint`), head())
  await log.append(envelope({ ts: new Date().toISOString(), trace_id: 'ab' }))
  await log.close()
  writeFileSync(join(home, 'newer.checkpoint'), head())
  const policy = blocks.find(({ page, language }) => page === 'app/README.md' && language === 'yaml')
  for (const name of ['policy', 'old', 'new']) writeFileSync(join(home, `${name}.yaml`), policy?.text ?? '')
  return head().split('\n')[0] ?? ''
}

/** Runs the lines with `npx svc-sdk` as the command of this build; a gateway ends when it listens. */
async function run(lines: string, cwd: string): Promise<string> {
  const bin = join(cwd, 'bin')
  mkdirSync(bin, { recursive: true })
  const gateway = `const { spawn } = require('node:child_process')
const child = spawn(process.execPath, [${JSON.stringify(svc)}, ...process.argv.slice(2), '--port', '0'], {
  stdio: ['inherit', 'pipe', 'inherit'],
})
let printed = ''
child.stdout.on('data', (piece) => { if ((printed += piece).includes('listening')) child.kill() })
child.once('exit', (code) => process.exit(code ?? 1))
`
  writeFileSync(join(bin, 'gateway.cjs'), gateway)
  const npx = `#!/bin/sh
shift
[ "$1" != gateway ] || exec '${process.execPath}' '${bin}/gateway.cjs' "$@"
exec '${process.execPath}' '${svc}' "$@"
`
  writeFileSync(join(bin, 'npx'), npx, { mode: 0o755 })
  // A command that writes into the home directory finds the scratch directory there.
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}`, HOME: cwd, LOG: 'audit' }
  return (await promisify(execFile)('sh', ['-ec', lines], { cwd, env, timeout: 30_000 })).stdout
}
