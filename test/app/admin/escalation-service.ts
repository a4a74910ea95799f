// An escalation service in memory, which a stage of the test binds.
import { bindDefault, definePlugin, type Plugin, type Reviewer, type Stage } from '@svc/core'
import {
  type EnrolmentService,
  type Escalation,
  type EscalationInput,
  type EscalationPage,
  type EscalationPageFilter,
  type EscalationService,
  escalationService,
  type GivenVote,
  isVotedOnBy,
  type VoteChallenge,
  VoteError,
  type VoteProof,
} from '@svc/plugin-enforcement'
import { z } from 'zod'

export class TestEscalationService implements EscalationService {
  readonly cases = new Map<string, Escalation>()
  readonly inputs = new Map<string, EscalationInput>()
  /** When set, the store is down. */
  isDown = false
  #now = Date.UTC(2026, 0, 2, 3, 4, 5)

  /** Opens an escalation of the tenant `acme`, with the given members. */
  open(id: string, given: Partial<Escalation> = {}): Escalation {
    const opened: Escalation = {
      id,
      fingerprint: 'f'.repeat(64),
      tenant: 'acme',
      server: 'billing',
      tool: 'refund_payment',
      reference: 'mcp://billing/refund_payment@1.0.0',
      principal: 'user:bob@example.com',
      reason: 'high_risk_side_effect',
      severity: 'high',
      strategy: 'single_approver',
      timeoutAction: 'auto_reject',
      status: 'pending',
      votes: [],
      isUsed: false,
      traceId: '1'.repeat(32),
      createdAt: this.#now,
      expiresAt: this.#now + 900_000,
      ...given,
    }
    this.cases.set(id, opened)
    this.#now += 1000
    return opened
  }

  async find(id: string): Promise<Escalation | undefined> {
    this.#reach()
    return this.cases.get(id)
  }

  async input(id: string): Promise<EscalationInput | undefined> {
    this.#reach()
    return this.inputs.get(id)
  }

  async list(filter: Parameters<EscalationService['list']>[0]): Promise<Escalation[]> {
    this.#reach()
    const { status, isUndecided, tenant, first, limit } = filter
    const sign = first === 'oldest' ? -1 : 1
    return [...this.cases.values()]
      .filter((one) => status === undefined || one.status === status)
      .filter((one) => isUndecided === undefined || one.status === 'pending')
      .filter((one) => tenant === undefined || one.tenant === tenant)
      .sort((a, b) => sign * (b.createdAt - a.createdAt))
      .slice(0, limit)
  }

  async page({ voters, ...filter }: EscalationPageFilter): Promise<EscalationPage> {
    const all = await this.list({ ...filter, limit: Infinity })
    const found = all.filter((one) => voters === undefined || isVotedOnBy(voters, one))
    return { found: found.slice(0, filter.limit) }
  }

  async vote(id: string, reviewer: Reviewer, { vote, comment, inputSha256 }: GivenVote): Promise<Escalation> {
    this.#reach()
    const found = this.cases.get(id)
    if (found === undefined) throw new VoteError('NOT_FOUND', 'There is no such escalation.')
    const who = reviewer.kind === 'admin' ? 'admin' : `${reviewer.identity.user}`
    if (found.principal === `user:${who}`) throw new VoteError('NOT_A_REVIEWER', 'Nobody approves their own.')
    if (found.votes.some((one) => one.reviewer === who)) {
      throw new VoteError('ALREADY_VOTED', 'You have voted.')
    }
    if (found.status !== 'pending') throw new VoteError('DECIDED', `It is ${found.status}.`)
    if (found.isTruncated === true && inputSha256 !== this.inputs.get(id)?.sha256) {
      throw new VoteError('INPUT_NOT_SEEN', 'The whole input is needed.')
    }
    const roles = reviewer.kind === 'admin' ? [] : reviewer.identity.roles
    const proof: VoteProof = reviewer.kind === 'admin' ? 'admin_token' : 'user_token'
    const cast = {
      proof,
      reviewer: who,
      roles,
      vote,
      at: this.#now,
      ...(comment === undefined ? {} : { comment }),
    }
    const decided =
      found.strategy === 'single_approver'
        ? {
            status: vote === 'approve' ? ('approved' as const) : ('rejected' as const),
            decidedBy: 'votes' as const,
            decidedAt: this.#now,
          }
        : {}
    const next = { ...found, ...decided, votes: [...found.votes, cast] }
    this.cases.set(id, next)
    return next
  }

  async standing(id: string, client: Reviewer) {
    const found = await this.find(id)
    const who = client.kind === 'admin' ? 'admin' : `${client.identity.user}`
    return found && { isCaller: found.principal === `user:${who}` }
  }

  async challenge(): Promise<VoteChallenge> {
    this.#reach()
    return { challenge: 'Y2hhbGxlbmdl', nonce: '00', rpId: 'localhost', credentials: [] }
  }

  async enrolments(): Promise<EnrolmentService> {
    this.#reach()
    const one = () => this.cases.values().next().value ?? Promise.reject(new Error('there is no case'))
    return {
      challenge: async () => ({
        ...(await this.challenge()),
        user: { id: 'dXNlcg', name: 'ann' },
        algorithms: [-7],
      }),
      enrol: async () => one(),
      revoke: async () => one(),
    }
  }

  async wait(id: string): Promise<Escalation | undefined> {
    return this.find(id)
  }

  #reach(): void {
    if (this.isDown) throw new Error('ECONNREFUSED: secret-host:6379')
  }
}

/** A plugin whose stage binds the service; `seen` counts the stops of the stage. */
export function escalationServicePlugin(
  service: EscalationService,
  seen: { stopped: number } = { stopped: 0 },
): Plugin {
  return definePlugin({
    name: 'service',
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}).prefault({}),
    create(_config, { container }): Stage {
      bindDefault(container, escalationService, { useValue: service })
      return {
        handle: (_call, next) => next(),
        async stop() {
          seen.stopped++
        },
      }
    },
  })
}
