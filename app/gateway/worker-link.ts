/** A gateway that is one of several processes which listen on one port: its place among them, and their supervisor. */
export interface WorkerLink {
  /** Whether this process has the admin listener, of which there is one. */
  readonly hasAdmin: boolean
  /** Metrics of all processes in the text format. */
  metrics(): Promise<string>
  /** Lets the other processes load the file of the policy, as an operator did here. */
  reloadOthers(): void
}
