// Records docs/session.svg: runs the quick start's commands against its example, and animates what the terminal showed.
// Waiting times are compressed; addresses are those of the quick start, whichever ports were free.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { animate } from './terminal-svg.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const call =
  'call() { curl -s http://127.0.0.1:8787/mcp/billing/$1@1.0.0 -H \'content-type: application/json\' -d "$2"; }'
const admin = '--admin http://127.0.0.1:8789 --token-ref file://.svc/admin.token'

/** A comment, and the command that is typed after it; `id` is the escalation of the call that waits. */
const steps = (id = '') => [
  ['', call],
  ['a call that the policy allows', `call get_invoice '{"invoice":"INV-1001"}'`],
  ['a call that it denies: nothing is sent', `call delete_customer '{"customer":"Harbour Bakery"}'`],
  [
    'a call that a person has to approve',
    `call refund_payment '{"invoice":"INV-1001","amount":420,"reason":"twice"}'`,
  ],
  ['', `npx svc-sdk escalations approve ${id} ${admin}`],
  ['the same call again', `call refund_payment '{"invoice":"INV-1001","amount":420,"reason":"twice"}'`],
  [
    'each call is a signed record, those of the example agent too',
    'npx svc-sdk audit show .svc/audit --format table | cut -c 1-103',
  ],
  ['', 'npx svc-sdk audit verify .svc/audit --keys .svc/signing.key'],
]

const directory = await mkdtemp(join(tmpdir(), 'svc-session-'))
try {
  await writeFile(join(root, 'docs', 'session.svg'), animate(await record(directory)))
} finally {
  await rm(directory, { recursive: true })
}

async function record(home) {
  const cwd = join(home, 'examples', 'quick-start')
  await cp(join(root, 'examples', 'quick-start'), cwd, {
    recursive: true,
    filter: (path) => !path.includes('.svc'),
  })
  await symlink(join(root, 'node_modules'), join(home, 'node_modules'))
  const example = spawn(process.execPath, ['dist/start.js'], {
    cwd,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const started = await instructions(example)
    const [, url] = /listens on (http:\S+)/.exec(started)
    const [, adminUrl] = /--admin (http:\S+)/.exec(started)
    const usual = [
      ['http://127.0.0.1:8787', url],
      ['http://127.0.0.1:8789', adminUrl],
    ]
    const shown = [
      { comment: '', command: 'npm start &', output: 'The gateway listens on http://127.0.0.1:8787\n' },
    ]
    let id
    for (let at = 0; at < steps().length; at++) {
      const [comment, command] = steps(id)[at]
      // Records are sealed every ten seconds.
      if (command.includes('verify')) await wait(11_000)
      const lines = `${call}\n${at === 0 ? '' : command}`
      const output = run(
        usual.reduce((text, [from, to]) => text.replaceAll(from, to), lines),
        cwd,
      )
      id = /esc_\w+/.exec(output)?.[0] ?? id
      shown.push({
        comment,
        command,
        output: usual.reduce((text, [to, from]) => text.replaceAll(from, to), output),
      })
    }
    return shown
  } finally {
    example.kill()
    await once(example, 'exit')
  }
}

function instructions(example) {
  return new Promise((resolve, reject) => {
    let printed = ''
    example.once('exit', () => reject(new Error(`the example ended: ${printed}`)))
    example.stdout.on('data', (piece) => {
      printed += piece
      if (printed.includes('Ctrl-C')) resolve(printed)
    })
  })
}

function run(lines, cwd) {
  const { stdout, stderr, status } = spawnSync('sh', ['-ec', lines], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  })
  if (status !== 0) throw new Error(`${lines}\n${stdout}${stderr}`)
  return stdout.endsWith('\n') || stdout === '' ? stdout : `${stdout}\n`
}
