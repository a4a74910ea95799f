import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { audit, threeRecords } from './audit-rig.js'

describe('svc audit', () => {
  const { dir, tamper } = threeRecords()

  describe('bundle and check-bundle', () => {
    const page = () => join(dir.path, 'evidence.html')
    const keys = () => join(dir.path, 'public-keys')

    it('write the records that match as a page, and check it without running it', async () => {
      const estimate = await audit('bundle', dir.path, '--decision', 'allow', '--estimate')
      expect(estimate.out).to.match(
        /^2 records, about \d+ KiB; left out: 0 beyond --limit, 0 not sealed yet\n$/,
      )
      const made = await audit('bundle', dir.path, '--decision', 'allow', '--out', page())
      expect([made.err, made.code]).to.deep.equal(['', 0])
      expect(made.out).to.match(/evidence\.html: \d+ KiB\n$/)
      expect(statSync(page()).mode & 0o777).to.equal(0o600)
      const checked = await audit('check-bundle', page(), '--keys', keys())
      expect(checked.out).to.match(
        /^log log\.svc-audit\/[0-9a-f]{16}, a checkpoint of 5 leaves\n2 records and 0 definitions\nof the 2 proven records, from /,
      )
      expect(checked.out)
        .to.include('  decisions: 2 × allowed\n')
        .and.include('  gaps: 1 × not in this file')
        .and.include('  witnesses: none\n')
      expect(checked.out).to.include('selected, as the file says, by: decision allow\n')
      expect([checked.out.split('\n').at(-2), checked.code]).to.deep.equal(['proven', 0])
      const { out } = await audit('check-bundle', page(), '--keys', keys(), '--json')
      expect(JSON.parse(out)).to.include({ valid: true, records: 2 })
    })

    it('exit 1 for a page that was edited, and 2 if there is no verdict', async () => {
      await audit('bundle', dir.path, '--out', page())
      const whole = readFileSync(page(), 'utf8')
      writeFileSync(page(), whole.replace('Not checked. Enter', 'All proven. Enter'))
      const edited = await audit('check-bundle', page(), '--keys', keys())
      expect([edited.out, edited.code]).to.deep.equal([
        'NOT PROVEN: around its data, the file is not the page that this version of svc-sdk writes: it may show other than its data\n',
        1,
      ])
      writeFileSync(page(), whole)
      writeFileSync(join(dir.path, 'late.pub'), readFileSync(keys(), 'utf8').replace(/\n/, ' 100\n'))
      const late = await audit('check-bundle', page(), '--keys', join(dir.path, 'late.pub'))
      expect(late.out).to.include(
        'record 1: its checkpoint of 5 leaves is signed by a key that is not trusted',
      )
      expect([late.out.split('\n').at(-2), late.code]).to.deep.equal(['NOT PROVEN: 3 of 3 records', 1])
      expect((await audit('check-bundle', join(dir.path, 'none'), '--keys', keys())).code).to.equal(2)
      expect((await audit('check-bundle', page(), '--keys', join(dir.path, 'none'))).code).to.equal(2)
    })

    it('write no page without records, or of a record that was changed', async () => {
      const none = await audit('bundle', dir.path, '--tenant', 'nobody', '--out', page())
      expect([none.err, none.code]).to.deep.equal([
        'svc-sdk audit bundle: no sealed record matches: none matches\n',
        1,
      ])
      expect((await audit('bundle', dir.path)).err).to.include('give --out FILE.html, or --estimate')
      tamper()
      const changed = await audit('bundle', dir.path, '--out', page())
      expect(changed.err).to.include(':2 does not lead to the newest checkpoint')
      expect(changed.code).to.equal(1)
    })
  })
})
