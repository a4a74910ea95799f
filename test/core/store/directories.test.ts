import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeDirectories } from '@svc/core/directories'
import { expect } from 'chai'

describe('makeDirectories', () => {
  let home: string
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  })
  afterEach(() => rmSync(home, { recursive: true }))

  it('creates the missing directories and returns the first of them', () => {
    expect(makeDirectories(join(home, 'a/b/c'), 0o700)).to.equal(join(home, 'a'))
    expect(statSync(join(home, 'a/b/c')).mode & 0o777).to.equal(0o700)
    expect(makeDirectories(join(home, 'a/b/d'), 0o700)).to.equal(join(home, 'a/b/d'))
  })

  it('does not change a directory that exists', () => {
    expect(makeDirectories(home, 0o700)).to.equal(undefined)
    expect(makeDirectories(`${home}/`, 0o700)).to.equal(undefined)
  })

  it('fails if a file has the name', () => {
    writeFileSync(join(home, 'file'), '')
    expect(() => makeDirectories(join(home, 'file'), 0o700))
      .to.throw()
      .with.property('code', 'EEXIST')
    expect(() => makeDirectories(join(home, 'file/a'), 0o700))
      .to.throw()
      .with.property('code', 'ENOTDIR')
  })

  // Where there is such a file system; a faulty loop would hang here.
  if (existsSync('/proc/self')) {
    it('fails without a loop where the system allows no directory', () => {
      expect(() => makeDirectories('/proc/svc/audit', 0o700))
        .to.throw()
        .with.property('code', 'ENOENT')
    })
  }
})
