import { severityOf, type Finding } from './finding.ts'

/** One sentence: whether something needs the operator, and how much. */
export function describeVerdict(findings: readonly Finding[]): string {
  const act = findings.filter((finding) => severityOf(finding) === 'act').length
  const look = findings.length - act
  if (findings.length === 0) return 'FINE: nothing needs you.'
  const toLookAt = `${look} ${look === 1 ? 'thing' : 'things'} to look at`
  if (act === 0) return `LOOK: ${toLookAt}.`
  return `ACT: ${act} ${act === 1 ? 'thing needs' : 'things need'} you${look === 0 ? '' : `, ${toLookAt}`}.`
}
