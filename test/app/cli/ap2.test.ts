import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ap2Command } from 'svc-sdk/internal/cli/ap2'
import { runCommand } from '../../support/command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('svc ap2', () => {
  const dir = temporaryDir()

  const run = (...args: readonly string[]) => runCommand(ap2Command, args)

  const make = (...more: readonly string[]) =>
    run(
      ...['make', '--keys', join(dir.path, 'keys.json'), '--audience', 'shop', '--total', '1999'],
      ...['--item', 'shoe', 'lace:2', ...more],
    )

  async function written(...more: readonly string[]): Promise<string> {
    const { out } = await make(...more)
    const file = join(dir.path, 'mandates.txt')
    writeFileSync(file, out)
    return file
  }

  for (const shape of ['chain', 'jws', 'v01']) {
    it(`makes mandates as ${shape} that pass every check`, async () => {
      const file = await written('--shape', shape)
      const { out, code } = await run('inspect', file, '--audience', 'shop')
      expect(out.match(/^mandate /gm)).to.have.lengthOf(2)
      expect(out).to.match(/every check passed\n$/)
      expect(out).to.not.match(/failed|not reached/)
      expect(code).to.equal(0)
    })
  }

  it('keeps the keys for the next run, readable only by their owner', async () => {
    const { err } = await make()
    expect(err).to.match(/^created .*; issuer did:key:z/)
    expect(statSync(join(dir.path, 'keys.json')).mode & 0o777).to.equal(0o600)
    const before = readFileSync(join(dir.path, 'keys.json'), 'utf8')
    expect((await make()).err).to.equal('')
    expect(readFileSync(join(dir.path, 'keys.json'), 'utf8')).to.equal(before)
    writeFileSync(join(dir.path, 'keys.json'), '{}')
    expect(await make()).to.include({ code: 1 })
  })

  it('names the check that fails and the checks that were not made', async () => {
    const file = await written('--header')
    const wrong = await run('inspect', file, '--audience', 'other')
    expect(wrong.code).to.equal(1)
    expect(wrong.out).to.match(/ {2}times +ok\n {2}audience +failed\n {2}chain +not reached\n/)
    expect(wrong.out).to.match(/ap2_wrong_audience: .*\n$/)
    const late = await run('inspect', file, '--at', '2040-01-01T00:00:00Z', '--json')
    expect(JSON.parse(late.out)).to.have.nested.property('error.reason', 'ap2_expired')
    const stranger = await run('inspect', file, '--issuer', 'did:web:shop.example')
    expect(stranger.out).to.match(/issuer +failed/)
  })

  it('explains why a text is not a mandate', async () => {
    const file = join(dir.path, 'none.txt')
    writeFileSync(file, 'a.b')
    expect(await run('inspect', file)).to.deep.include({
      out: 'ap2_malformed: a JWT has three parts\n',
      code: 1,
    })
    expect(await run('inspect', join(dir.path, 'absent'))).to.include({ code: 2 })
  })

  it('shows an intent of v0.1 as information', async () => {
    const file = join(dir.path, 'intent.json')
    writeFileSync(file, '{"natural_language_description":"shoes"}')
    expect((await run('inspect', file)).out).to.match(
      /^intent without a signature, for information only: [0-9a-f]{64}\n/,
    )
  })

  it('inspects the published chain', async () => {
    const file = new URL('../../../fixtures/ap2/checkout-chain.txt', import.meta.url).pathname
    const { out } = await run('inspect', file, '--at', '2026-04-28T02:20:00Z')
    expect(out).to.match(/discloses: .*mandate\.checkout\.open\.1/)
    expect(out).to.match(/issuer +failed/)
  })

  it('writes a binding from example arguments', async () => {
    const example = join(dir.path, 'call.json')
    const args = {
      order: { amount: '19.99', cur: 'USD' },
      cart: [
        { sku: 'shoe', n: 1 },
        { sku: 'lace', n: 2 },
      ],
      'a/b': 'card_1',
    }
    writeFileSync(example, JSON.stringify(args))
    expect(JSON.parse((await make('--for', example)).out)).to.deep.equal({
      total: '/order/amount',
      totalUnit: 'major',
      currency: '/order/cur',
      merchant: { is: 'merchant_1' },
      items: { list: '/cart', id: '/sku', quantity: '/n' },
      instrument: '/a~1b',
    })
    writeFileSync(example, JSON.stringify({ total: 1999 }))
    expect(JSON.parse((await make('--for', example)).out)).to.deep.equal({
      total: '/total',
      currency: { is: 'USD' },
      merchant: { is: 'merchant_1' },
      instrument: { is: 'card_1' },
    })
  })
})
