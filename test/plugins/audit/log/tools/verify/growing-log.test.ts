import { takeInventory } from '@svc/plugin-audit/internal/log/tools/verify/inventory'
import { verifyFiles } from '@svc/plugin-audit/internal/log/tools/verify/verify-log'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { append } from '../../seal/rig.js'
import { appenderIn, signer } from '../../writer/records.js'

const keys = [verifierFromPublicKey(signer.publicKey)]

describe('verifyLog on a log that is sealed between its looks at checkpoints and journal', () => {
  const dir = temporaryDir()

  function inventory() {
    const taken = takeInventory(dir.path)
    if (typeof taken === 'string') throw new Error(taken)
    return taken
  }

  for (const sealedBefore of [0, 1, 3]) {
    it(`requires no checkpoint of the later seals, after ${sealedBefore}`, async () => {
      await using appender = appenderIn(dir.path)
      const seal = async (times: number) => {
        for (let i = 0; i < times; i++) {
          await append(appender, 1)
          await appender.seal()
        }
      }
      await appender.ready()
      await seal(sealedBefore)
      const { coveredSize, checkpoints } = inventory()
      await seal(4)
      const grown = { ...inventory(), checkpoints }
      const verified = (size: number) => verifyFiles(dir.path, { ...grown, coveredSize: size }, { keys })
      expect(await verified(coveredSize)).to.deep.include({ verdict: 'intact', failures: [] })
      // The same files, if nothing was written in between.
      expect((await verified(grown.coveredSize)).failureCounts).to.deep.equal({ missing_checkpoint: 1 })
    })
  }
})
