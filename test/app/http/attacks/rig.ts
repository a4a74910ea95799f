// A gateway and an upstream that all tests of a suite send raw requests to.
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { startUpstream, type TestUpstream } from '../../../support/upstream.js'

/** Created in a suite, it registers the hooks; its members exist while the tests run. */
export class AttackedGateway {
  gateway!: TestGateway
  /** Its calls are removed before each test. */
  upstream!: TestUpstream

  constructor() {
    before(async () => {
      this.upstream = await startUpstream()
      this.gateway = await startTestGateway({ targets: { files: this.upstream.url } })
    })

    beforeEach(() => this.upstream.calls.splice(0))

    after(async () => {
      await this.gateway[Symbol.asyncDispose]()
      await this.upstream[Symbol.asyncDispose]()
    })
  }
}
