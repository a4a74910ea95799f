import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeyError, KeyReader } from '@svc/core/secret'
import { expect } from 'chai'

describe('key references', () => {
  let home: string
  let policy: string
  let state: string
  let outside: string

  beforeEach(() => {
    home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')))
    policy = join(home, 'policy')
    state = join(home, 'state')
    outside = join(home, 'outside')
    for (const directory of [policy, state, outside]) mkdirSync(directory)
    writeFileSync(join(outside, 'key'), 'from outside')
  })

  afterEach(() => rmSync(home, { recursive: true, force: true }))

  const reader = (env: Record<string, string> = {}, directories?: string[]): KeyReader =>
    new KeyReader({ baseDir: policy, stateDir: state, env }, directories)

  async function error(ref: string, from = reader()): Promise<string> {
    return from.read(ref).then(
      () => expect.fail(`${ref} was read`),
      (thrown: unknown) => {
        expect(thrown).to.be.instanceOf(KeyError)
        const { code, message } = thrown as KeyError
        return `${code}: ${message}`
      },
    )
  }

  it('are read from files, relative to the policy, without surrounding white space', async () => {
    writeFileSync(join(policy, 'vendor key'), '  k-1\r\n')
    writeFileSync(join(state, 'key'), 'k-2')
    expect(await reader().read('file://./vendor%20key')).to.equal('k-1')
    expect(await reader().read('file://vendor key')).to.equal('k-1')
    expect(await reader().read(`file://${state}/key`)).to.equal('k-2')
  })

  it('are read from the environment', async () => {
    expect(await reader({ KEY: ' k-3\n' }).read('env:KEY')).to.equal('k-3')
    expect(await error('env:KEY')).to.equal('key_missing: the environment variable KEY is not set')
    expect(await error('env:KEY', reader({ KEY: ' ' }))).to.equal(
      'key_malformed: the environment variable KEY is empty',
    )
    expect(await error('env:toString')).to.match(/is not set$/)
  })

  it('never name a file outside the directories for keys', async () => {
    const said = `the key file ${outside}/key is outside the directories for keys (${policy}, ${state})`
    for (const ref of [`file://${outside}/key`, 'file://../outside/key', 'file://%2e%2e/outside/key']) {
      expect(await error(ref)).to.equal(`key_elsewhere: ${said}`)
    }
    // A sibling whose name begins like an allowed directory's.
    mkdirSync(`${policy}-2`)
    writeFileSync(`${policy}-2/key`, 'k')
    expect(await error(`file://${policy}-2/key`)).to.match(/^key_elsewhere/)
  })

  it('never leave these directories by a symbolic link, to a file or a directory', async () => {
    symlinkSync(join(outside, 'key'), join(policy, 'link'))
    symlinkSync(outside, join(policy, 'directory'))
    const said = 'is outside the directories for keys'
    expect(await error('file://link')).to.equal(`key_elsewhere: the key file ${policy}/link ${said}`)
    expect(await error('file://directory/key')).to.match(/^key_elsewhere/)
  })

  it('may use links within these directories, as mounted secrets do', async () => {
    mkdirSync(join(policy, '..2026'))
    writeFileSync(join(policy, '..2026', 'key'), 'k-4')
    symlinkSync('..2026', join(policy, '..data'))
    symlinkSync('..data/key', join(policy, 'key'))
    expect(await reader().read('file://key')).to.equal('k-4')
  })

  it('use the directories of the policy, and only those', async () => {
    writeFileSync(join(policy, 'key'), 'k')
    const elsewhere = reader({}, ['../outside'])
    expect(await elsewhere.read(`file://${outside}/key`)).to.equal('from outside')
    expect(await error('file://key', elsewhere)).to.match(/^key_elsewhere/)
  })

  it('report why a file cannot be used', async () => {
    mkdirSync(join(policy, 'directory'))
    writeFileSync(join(policy, 'empty'), ' \n')
    writeFileSync(join(policy, 'huge'), 'k'.repeat(16_385))
    writeFileSync(join(policy, 'binary'), Buffer.from([0xff, 0xfe, 0x00]))
    writeFileSync(join(policy, 'open'), 'k')
    chmodSync(join(policy, 'open'), 0o666)
    expect(await error('file://directory')).to.equal(
      `key_unreadable: the key file ${policy}/directory is a directory`,
    )
    expect(await error('file://empty')).to.equal(`key_malformed: the key file ${policy}/empty is empty`)
    expect(await error('file://huge')).to.equal(
      `key_malformed: the key file ${policy}/huge is larger than 16384 bytes, too large for a key`,
    )
    expect(await error('file://binary')).to.equal(
      `key_malformed: the key file ${policy}/binary is not UTF-8 text`,
    )
    expect(await error('file://missing')).to.equal(`key_missing: there is no key file ${policy}/missing`)
    expect(await error('file://open')).to.equal(
      `key_unreadable: the key file ${policy}/open is writable by everyone: chmod 600 it`,
    )
  })

  it('are not quoted if they are invalid, as they may be keys', async () => {
    for (const ref of ['sk-live-51HtGz', 'env:sk-live-51HtGz', 'file://', 'vault:sk-live-51HtGz']) {
      expect(await error(ref))
        .to.match(/^key_ref: /)
        .and.not.include('51HtGz')
    }
  })
})
