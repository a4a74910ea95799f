import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ap2Command } from 'svc-sdk/internal/cli/ap2'
import { type Run, runCommand } from '../support/command.js'
import { startTestGateway } from '../support/gateway.js'
import { ofSuite } from '../support/parts.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'

const page = readFileSync(new URL('../../../docs/ap2.md', import.meta.url), 'utf8')

describe('docs/ap2.md', () => {
  const dir = ofSuite(() => new TemporaryDir())

  /** A command of the page, with its files in the temporary directory. */
  async function run(command: RegExp, more: readonly string[] = []): Promise<Run> {
    const [, line = ''] = command.exec(page) ?? []
    const args = line
      .trim()
      .split(' ')
      .map((arg) => arg.replace('bundle.txt', join(dir.path, 'bundle.txt')))
    return runCommand(ap2Command, [...args, ...more])
  }

  it('walks from a mandate to a purchase that passes once', async () => {
    const keys = ['--keys', join(dir.path, 'keys.json')]
    const making = /npx svc-sdk ap2 (make .*?) > bundle\.txt/
    const { out, err } = await run(making, keys)
    const issuer = /issuer (did:key:\S+)/.exec(err)?.[1] ?? ''
    writeFileSync(join(dir.path, 'bundle.txt'), out)
    expect((await run(/npx svc-sdk ap2 (inspect .*)/)).out).to.match(/every check passed\n$/)

    const [, call = ''] = /```json\n(\{\n {2}"amount"[\s\S]*?)```/.exec(page) ?? []
    const [, policy = ''] = /```yaml\n(tenant:[\s\S]*?)```/.exec(page) ?? []
    writeFileSync(join(dir.path, 'call.json'), call)
    const bound = JSON.parse((await run(making, [...keys, '--for', join(dir.path, 'call.json')])).out)

    await using upstream = await startUpstream()
    await using gateway = await startTestGateway((home) => ({
      policyYaml: policy
        .replace('http://127.0.0.1:9000', upstream.url)
        .replace('port: 8787', `port: 0\nsec0Dir: ${home}`)
        .replace('  signer:', `  dir: ${home}/audit\n  signer:`)
        .replace('file://audit.key', `"file://${home}/key"`)
        .replace(/did:key:zDnaeUe…/, issuer),
    }))
    expect(bound).to.deep.equal({
      total: '/amount',
      currency: '/currency',
      merchant: { is: 'merchant_1' },
      items: { list: '/lines', id: '/sku', quantity: '/count' },
      instrument: '/card',
    })
    const buy = async () => {
      const response = await gateway.invoke('/mcp/shop/buy@1.0.0', call, { 'x-ap2-bundle': out.trim() })
      return { status: response.status, body: (await response.json()) as object }
    }
    expect(await buy()).to.have.property('status', 200)
    const again = await buy()
    expect(again.status).to.equal(403)
    expect(again.body).to.have.property('denial_reason', 'ap2_replayed')
    expect(upstream.calls).to.have.lengthOf(1)

    const [first, second] = gateway.records()
    expect(first).to.have.nested.property('policy.decision', 'allow')
    expect(first).to.have.nested.property('agentMetadata.ap2.verified', true)
    expect(first).to.have.nested.property('agentMetadata.ap2.mandates[1].subject', 'user_1')
    expect(second).to.have.nested.property('policy.decision', 'deny')
    expect(second?.risk_tags).to.deep.equal(['ap2_replayed'])
    expect(second).to.have.nested.property('findings[0].effect', 'deny')
    expect(second).to.have.nested.property('findings[0].detail', 'the mandate was used by another call')
  })
})
