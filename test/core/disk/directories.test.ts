import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { makeDirectories } from '@svc/core/directories'
import { expect } from 'chai'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('makeDirectories', () => {
  const home = temporaryDir()

  it('creates the missing directories and returns the first of them', () => {
    expect(makeDirectories(join(home.path, 'a/b/c'), 0o700)).to.equal(join(home.path, 'a'))
    expect(statSync(join(home.path, 'a/b/c')).mode & 0o777).to.equal(0o700)
    expect(makeDirectories(join(home.path, 'a/b/d'), 0o700)).to.equal(join(home.path, 'a/b/d'))
  })

  it('does not change a directory that exists', () => {
    expect(makeDirectories(home.path, 0o700)).to.equal(undefined)
    expect(makeDirectories(`${home.path}/`, 0o700)).to.equal(undefined)
  })

  it('does so where Error is another one than that of Node, as in a test runner', () => {
    const own = globalThis.Error
    globalThis.Error = runInNewContext('Error')
    try {
      expect(makeDirectories(home.path, 0o700)).to.equal(undefined)
    } finally {
      globalThis.Error = own
    }
  })

  it('fails if a file has the name', () => {
    writeFileSync(join(home.path, 'file'), '')
    expect(() => makeDirectories(join(home.path, 'file'), 0o700))
      .to.throw()
      .with.property('code', 'ENOTDIR')
    expect(() => makeDirectories(join(home.path, 'file/a'), 0o700))
      .to.throw()
      .with.property('code', 'ENOTDIR')
  })

  // Only Linux has such a file system; a wrong loop would hang here.
  if (existsSync('/proc/self')) {
    it('fails without a loop if the system allows no directory', () => {
      expect(() => makeDirectories('/proc/svc/audit', 0o700))
        .to.throw()
        .with.property('code', 'ENOENT')
    })
  }
})
