import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { KeyError, KeyReader } from '@svc/core/secret'
import { expect } from 'chai'
import { AdminToken } from 'svc-sdk/internal/policy/admin-authorizer'
import { FakeClock } from 'svc-sdk/testing'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('the admin token', () => {
  let clock: FakeClock
  let token: AdminToken
  const write = (text: string) => writeFileSync(join(dir.path, 'token'), text, { mode: 0o600 })

  const dir = temporaryDir()
  beforeEach(() => {
    clock = new FakeClock()
    token = new AdminToken(
      'file://token',
      new KeyReader({ baseDir: dir.path, stateDir: dir.path, env: {} }),
      clock,
    )
    write('the-first-token-of-it\n')
  })

  it('is the content of its file without the white space around it', async () => {
    await token.check()
    expect(await token.equals('the-first-token-of-it')).to.equal(true)
    for (const other of ['', 'the-first-token-of-i', 'the-first-token-of-it ', 'the-first-token-of-itt']) {
      expect(await token.equals(other)).to.equal(false)
    }
  })

  it('changes within a second after its file has changed', async () => {
    await token.equals('x')
    write('the-second-token-of-it')
    expect(await token.equals('the-first-token-of-it')).to.equal(true)
    clock.advance(1000)
    expect(await token.equals('the-first-token-of-it')).to.equal(false)
    expect(await token.equals('the-second-token-of-it')).to.equal(true)
  })

  it('refuses every token while its file is invalid, and accepts the content again afterwards', async () => {
    for (const text of ['', 'short', 'a token with spaces in it']) {
      write(text)
      clock.advance(1000)
      const error = await token.equals(text).catch((caught: unknown) => caught)
      expect(error).to.be.instanceOf(KeyError)
      if (text !== '') expect(String(error)).not.to.contain(text)
    }
    write('the-first-token-of-it')
    clock.advance(1000)
    expect(await token.equals('the-first-token-of-it')).to.equal(true)
  })
})
