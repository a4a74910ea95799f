// The walk of docs/policies.md, from a rule to a policy in force: each block runs as it stands, in its order.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Running } from '../support/gateway-process.js'
import { freePort } from '../support/loopback.js'
import { blocks, root } from '../support/pages.js'
import { until } from '../support/redis.js'
import { svc } from '../support/svc.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'

const walk = blocks
  .filter(({ page, language }) => page === 'docs/policies.md' && language === 'sh')
  .slice(0, 6)

describe('the walk from a rule to a policy in force', function () {
  this.timeout(120_000)

  it('runs as docs/policies.md shows it', async () => {
    using dir = new TemporaryDir()
    await using upstream = await startUpstream()
    const home = dir.path
    const adminPort = await freePort()
    for (const name of ['policy.yaml', 'policy.test.yaml'])
      cpSync(join(root, 'examples/quick-start', name), join(home, name))
    const policy = readFileSync(join(home, 'policy.yaml'), 'utf8')
      .replace('http://127.0.0.1:8788/billing', upstream.url)
      .replace('port: 8789', `port: ${adminPort}`)
      .replace('port: 8787', 'port: 0')
    writeFileSync(join(home, 'policy.yaml'), policy)
    mkdirSync(join(home, '.svc'))
    generateKeyFile(join(home, '.svc/signing.key'))
    writeFileSync(join(home, '.svc/admin.token'), 'the-admin-token-of-the-walk', { mode: 0o600 })
    mkdirSync(join(home, 'bin'))
    writeFileSync(join(home, 'bin/npx'), `#!/bin/sh\nshift\nexec '${process.execPath}' '${svc}' "$@"\n`, {
      mode: 0o755,
    })
    symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))

    await using gateway = new Running(['--policy', join(home, 'policy.yaml'), '--watch'])
    const { url } = await gateway.line('listening')
    const call = async (tool: string, args: object) => {
      const body = JSON.stringify(args)
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${url}/mcp/billing/${tool}@1.0.0`, { method: 'POST', headers, body })
      return ((await response.json()) as { denial_reason?: string }).denial_reason
    }
    const env = { ...process.env, PATH: `${join(home, 'bin')}:${process.env['PATH']}`, NO_COLOR: '1' }
    const run = async (at: number) => {
      const lines = walk[at]?.text ?? ''
      return (await promisify(execFile)('sh', ['-ec', lines], { cwd: home, env })).stdout
    }
    const refund = () => call('refund_payment', { invoice: 'INV-1001', amount: 480 })

    await call('get_invoice', { invoice: 'INV-1001' })
    expect(await refund()).to.equal('tool_not_in_allowlist')
    expect(await run(0)).to.match(/^next\.yaml: OK, .*\d+ passed/ms)
    expect(await run(1)).to.match(/^ +now denied +1 +billing\/refund_payment +rule:large-refunds/m)
    await run(2)
    await gateway.line('policy reloaded')
    // The candidate is loaded beside the policy in force.
    await until(async () => {
      await refund()
      return /allow|different +[1-9]/.test(await run(3).catch(() => ''))
    })
    expect(await run(3)).to.match(
      /escalate -> deny +mcp:\/\/billing\/refund_payment@1\.0\.0 +rule:large-refunds/,
    )
    const [put = '', explain = ''] = (walk[4]?.text ?? '').split('\n')
    await promisify(execFile)('sh', ['-ec', put], { cwd: home, env })
    await gateway.line('policy reloaded')
    expect(await refund()).to.equal('rule:large-refunds')
    const { stdout } = await promisify(execFile)('sh', ['-ec', explain], { cwd: home, env })
    expect(stdout).to.match(/^ {2}decided by {2}rules, rule rule:large-refunds$/m)
    expect(stdout).to.match(/^ +\d+ \| {3}- name: large-refunds$/m)
    await run(5)
    expect(readFileSync(join(home, 'narrow.yaml'), 'utf8')).to.contain('billing/list_invoices: never used')
  })
})
