import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { installRequired } from '../../../support/install-required.js'
import { temporaryDir } from '../../../support/temporary-dir.js'

describe('the LMDB store without the package lmdb', () => {
  const home = temporaryDir()

  it('says what to install, and creates nothing', () => {
    installRequired(home.path, '@svc/core')
    const program =
      "import { LmdbKeyValueStore } from '@svc/core/lmdb'; new LmdbKeyValueStore({ dir: 'data', name: 'the quota store' })"
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: home.path,
      encoding: 'utf8',
    })
    expect(stderr).to.include(
      'Error: the quota store in data cannot be opened: ' +
        'the package lmdb is missing: npm install lmdb, or choose another adapter\n',
    )
    expect(existsSync(join(home.path, 'data'))).to.equal(false)
  })
})
